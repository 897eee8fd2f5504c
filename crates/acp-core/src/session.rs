//! What a host has set: for its session by `acp/configure`, for one call by `_meta.acp`, and what of it is in force
//! (section 5).
//!
//! It knows no transport: a process serves one session over stdio and many over HTTP.

use acp_protocol::session::{ConfigureResult, Effective, Sampling};
use acp_protocol::{DEFAULT_FIELD_LIMIT, INLINE_MAX_BYTES, JsonObject, MAX_FIELD_LIMIT, MAX_ROW_LIMIT};
use serde_json::Value;

use crate::connector::About;
use crate::credentials::Credentials;
use crate::error::{Error, Result};
use crate::tables::Catalogue;

/// Values of one level; `None` is "not set here". The inner `Option` is a value that was set to nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    row_limit: Option<u32>,
    cost_limit_usd: Option<f64>,
    field_limit: Option<u32>,
    tables: Option<Vec<String>>,
    credentials: Option<Option<Credentials>>,
    config: JsonObject,
    default_resource_id: Option<Option<String>>,
}

/// `_meta.acp` of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallSettings {
    pub(crate) settings: Settings,
    pub(crate) session_id: Option<String>,
    pub(crate) conversation_id: Option<String>,
    pub(crate) autocontext_delivered: Option<bool>,
    pub(crate) autocontext_blocks: Vec<String>,
    pub(crate) sampling: Sampling,
    pub(crate) inline_max_bytes: u64,
    pub(crate) call_id: Option<String>,
    /// Whether the call had a `_meta.acp` at all.
    pub(crate) present: bool,
    pub(crate) warnings: Vec<String>,
}

/// What is in force for a session or a call.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    pub(crate) row_limit: u32,
    pub(crate) cost_limit_usd: f64,
    pub(crate) field_limit: u32,
    /// What the host selected of the table catalogue.
    pub(crate) tables: Option<Vec<String>>,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) config: JsonObject,
    pub(crate) default_resource_id: Option<String>,
}

impl Settings {
    /// Reads the fields of `acp/configure`; unknown ones are ignored. Nothing is read from a set with an error in it.
    pub(crate) fn read(fields: &JsonObject, about: &About, catalogue: &Catalogue) -> Result<Self> {
        Ok(Self {
            row_limit: fields.get("row_limit").map(|value| limit("row_limit", value, 0, MAX_ROW_LIMIT)).transpose()?,
            cost_limit_usd: fields.get("cost_limit_usd").map(cost_limit).transpose()?,
            field_limit: fields
                .get("field_limit")
                .map(|value| limit("field_limit", value, 1, MAX_FIELD_LIMIT))
                .transpose()?,
            tables: catalogue.read(fields.get("tables"))?,
            credentials: fields.get("credentials").map(credentials).transpose()?,
            config: fields.get("config").map(|value| config(value, about)).transpose()?.unwrap_or_default(),
            default_resource_id: fields.get("default_resource_id").map(default_resource).transpose()?,
        })
    }

    /// Adds the values of a later call: they win one by one, `config` key by key.
    pub(crate) fn merge(&mut self, later: Self) {
        self.row_limit = later.row_limit.or(self.row_limit);
        self.cost_limit_usd = later.cost_limit_usd.or(self.cost_limit_usd);
        self.field_limit = later.field_limit.or(self.field_limit);
        self.tables = later.tables.or(self.tables.take());
        self.credentials = later.credentials.or(self.credentials.take());
        self.default_resource_id = later.default_resource_id.or(self.default_resource_id.take());
        for (key, value) in later.config {
            // A null takes the key back to the level below.
            if value.is_null() {
                self.config.shift_remove(&key);
            } else {
                self.config.insert(key, value);
            }
        }
    }

    /// Brings the default resource into its normal form, when it has one.
    pub(crate) fn normalise_default(&mut self, normalise: impl Fn(&str) -> Option<String>) {
        if let Some(Some(id)) = &mut self.default_resource_id
            && let Some(normal) = normalise(id)
        {
            *id = normal;
        }
    }

    /// Checks the form of credentials against the connector's schema (5.5.3).
    pub(crate) fn check_credentials(&self, about: &About) -> Result<()> {
        match &self.credentials {
            Some(Some(credentials)) => well_formed(credentials, about),
            _ => Ok(()),
        }
    }

    /// What is in force at this level.
    pub(crate) fn in_force(&self, about: &About, catalogue: &Catalogue) -> InForce {
        let mut config: JsonObject = about
            .config
            .iter()
            .flat_map(|schema| &schema.properties)
            .filter_map(|(name, property)| Some((name.clone(), property.default.clone()?)))
            .collect();
        config.extend(self.config.clone());
        InForce {
            row_limit: self.row_limit.unwrap_or(about.row_limit),
            cost_limit_usd: self.cost_limit_usd.unwrap_or(about.cost_limit_usd),
            field_limit: self.field_limit.or(catalogue.field_limit).unwrap_or(DEFAULT_FIELD_LIMIT),
            tables: self.tables.clone(),
            credentials: self.credentials.clone().flatten(),
            config,
            default_resource_id: self.default_resource_id.clone().flatten(),
        }
    }
}

impl InForce {
    /// The answer of `acp/configure`.
    pub(crate) fn configured(&self, catalogue: &Catalogue) -> ConfigureResult {
        ConfigureResult {
            ok: true,
            effective: Effective {
                row_limit: self.row_limit,
                cost_limit_usd: self.cost_limit_usd,
                field_limit: self.field_limit,
                tables: catalogue
                    .select(None, self.tables.as_deref(), None)
                    .map(|selection| selection.selected().to_vec()),
                has_credentials: self.credentials.is_some(),
                default_resource_id: self.default_resource_id.clone(),
            },
        }
    }

    /// The credentials of a call that needs them: there, and of the form that the connector publishes.
    pub(crate) fn usable_credentials(&self, about: &About) -> Result<()> {
        let credentials = self.credentials.as_ref().ok_or_else(crate::call::missing_credentials)?;
        well_formed(credentials, about)
    }

    /// The settings of a call: complete and of the form that the connector publishes.
    pub(crate) fn check_config(&self, about: &About) -> Result<()> {
        match &about.config {
            Some(schema) => schema.check(&self.config).map_err(bad_config),
            None => Ok(()),
        }
    }
}

impl CallSettings {
    /// Reads `_meta.acp`; absent and `null` mean no values. Unknown fields are ignored.
    pub(crate) fn read(meta: Option<&Value>, about: &About, catalogue: &Catalogue) -> Result<Self> {
        let fields = match meta {
            None | Some(Value::Null) => return Ok(Self { inline_max_bytes: INLINE_MAX_BYTES, ..Self::default() }),
            Some(Value::Object(fields)) => fields,
            Some(_) => {
                return Err(Error::invalid_arguments("_meta.acp must be an object. The host has to correct it."));
            }
        };
        let mut warnings = Vec::new();
        let text =
            |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        let sampling = match fields.get("sampling").map(|value| value.as_str().unwrap_or("another type")) {
            None | Some("head") => Sampling::Head,
            Some("spread") => Sampling::Spread,
            Some(_) => {
                warnings.push(
                    "_meta.acp.sampling is neither \"head\" nor \"spread\"; the first rows are shown.".to_owned(),
                );
                Sampling::Head
            }
        };
        let mut settings = Settings::read(fields, about, catalogue)?;
        // A null takes back this level's value, and this level has none yet.
        settings.config.retain(|_, value| !value.is_null());
        Ok(Self {
            settings,
            session_id: text("session_id"),
            conversation_id: text("conversation_id"),
            call_id: text("call_id"),
            autocontext_delivered: fields.get("autocontext_delivered").and_then(Value::as_bool),
            autocontext_blocks: fields
                .get("autocontext_blocks")
                .and_then(Value::as_array)
                .map(|ids| ids.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                .unwrap_or_default(),
            sampling,
            inline_max_bytes: fields.get("inline_max_bytes").map(inline_limit).transpose()?.unwrap_or(INLINE_MAX_BYTES),
            present: true,
            warnings,
        })
    }
}

/// A JSON number without a fraction, such as `25`, `25.0` and `2.5e1`.
fn whole(value: &Value) -> Option<u64> {
    let number = value.as_number()?;
    number.as_u64().or_else(|| {
        let float = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0)?;
        (0.0..9e15).contains(&float).then_some(float as u64)
    })
}

fn limit(name: &str, value: &Value, least: u32, most: u32) -> Result<u32> {
    whole(value)
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| {
            Error::invalid_limit(format!(
                "{name} must be a whole number between {least} and {most}. The host sets it; it is not an argument."
            ))
        })
}

fn cost_limit(value: &Value) -> Result<f64> {
    value.as_f64().filter(|amount| value.is_number() && amount.is_finite() && *amount >= 0.0).ok_or_else(|| {
        Error::invalid_limit("cost_limit_usd must be a number of at least 0. The host sets it; it is not an argument.")
    })
}

fn inline_limit(value: &Value) -> Result<u64> {
    whole(value)
        .ok_or_else(|| Error::invalid_limit("inline_max_bytes must be a whole number of at least 0. The host sets it."))
}

fn credentials(value: &Value) -> Result<Option<Credentials>> {
    match value {
        Value::Null => Ok(None),
        Value::Object(values) if values.is_empty() => Ok(None),
        Value::Object(values) => Ok(Some(Credentials::new(values.clone()))),
        _ => Err(Error::credentials_invalid(
            "credentials must be an object of the form that credentials_schema publishes, or null.",
        )),
    }
}

fn config(value: &Value, about: &About) -> Result<JsonObject> {
    let values = value.as_object().ok_or_else(|| {
        Error::invalid_arguments("config must be an object of the form that config_schema publishes.")
    })?;
    if let Some(schema) = &about.config {
        schema.check_types(values).map_err(bad_config)?;
    }
    Ok(values.clone())
}

fn bad_config(problem: acp_protocol::setup::ValueProblem) -> Error {
    Error::invalid_arguments(format!(
        "The setting {problem}. The person has to correct it in the host's settings of this source."
    ))
}

fn default_resource(value: &Value) -> Result<Option<String>> {
    match value {
        Value::Null => Ok(None),
        Value::String(id) => Ok(Some(id.trim().to_owned()).filter(|id| !id.is_empty())),
        _ => Err(Error::invalid_arguments("default_resource_id must be a string or null.")),
    }
}

fn well_formed(credentials: &Credentials, about: &About) -> Result<()> {
    about.credentials.check(credentials.values().expose()).map_err(|problem| {
        Error::credentials_invalid(format!(
            "The credentials do not have the published form: {problem}. The person has to correct them in the host's settings of this source."
        ))
    })
}
