//! A form of a connector, filled by flags or by a person at the terminal (5.5). Knows no connector: everything comes from the
//! form.

use std::path::{Path, PathBuf};

use acp_host::form::{FieldKind, Form, Variant, typed_text};
use acp_host::secrets::{Keep, Vault};
use acp_host::sources::Reference;
use acp_protocol::JsonObject;
use clap::Args;
use serde_json::Value;

use crate::report::Failure;
use crate::terminal;

/// Values of fields on the command line. With any of them nothing is asked.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Given {
    /// Kind of credentials: its title, or the value that marks it
    #[arg(long, value_name = "KIND")]
    variant: Option<String>,
    /// Value of a field of the credentials or of the settings; empty removes it. Others can see command lines: use
    /// --set-file or --set-env for secrets
    #[arg(long, value_name = "FIELD=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// A field whose value is the content of a file, which is read at each call
    #[arg(long, value_name = "FIELD=PATH", value_parser = pair)]
    set_file: Vec<(String, String)>,
    /// A field whose value is a variable of the environment, which is read at each call
    #[arg(long, value_name = "FIELD=NAME", value_parser = pair)]
    set_env: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write FIELD=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// What a field was given.
#[derive(Clone, Debug)]
enum Input {
    Text(String),
    Refers(Reference),
}

/// Where things are that a form refers to.
pub(crate) struct Places<'a> {
    /// Folder of `sources.json`.
    pub(crate) folder: &'a Path,
    /// The project.
    pub(crate) project: &'a Path,
}

/// What a source has already.
pub(crate) struct Former {
    /// As it stands in the file.
    written: JsonObject,
    /// Without references.
    values: JsonObject,
}

impl Former {
    /// What is written. A reference that has no value any more is left out of the values: that is what a person edits for.
    pub(crate) fn of(written: &JsonObject, places: &Places<'_>) -> Self {
        let value = |value: &Value| match Reference::of(value) {
            Some(reference) => reference.resolve(places.folder, places.project).ok().map(Value::String),
            None => Some(value.clone()),
        };
        let values = written.iter().filter_map(|(name, written)| Some((name.clone(), value(written)?)));
        Self { written: written.clone(), values: values.collect() }
    }
}

/// A filled form.
#[derive(Clone, Default)]
pub(crate) struct Filled {
    /// The values to send.
    pub(crate) values: JsonObject,
    /// What stands in the file for them; secrets are still to be kept.
    written: JsonObject,
    /// Names of the values that are secrets and are nowhere yet.
    secrets: Vec<String>,
}

impl Filled {
    /// What to write into the file, once the secrets are kept; which they are is added to `kept`.
    pub(crate) fn keep(
        mut self,
        source: &str,
        vault: Vault<'_>,
        keep: Keep,
        kept: &mut Vec<(String, Reference)>,
    ) -> Result<JsonObject, Failure> {
        for name in self.secrets {
            let secret = self.values.get(&name).map(terminal::shown).unwrap_or_default();
            let reference = vault.keep(source, &name, &secret, keep)?;
            self.written.insert(name.clone(), reference.to_value());
            kept.push((name, reference));
        }
        Ok(self.written)
    }
}

impl Given {
    /// Whether anything was given, so that nothing is asked.
    pub(crate) fn is_some(&self) -> bool {
        self.variant.is_some() || !(self.set.is_empty() && self.set_file.is_empty() && self.set_env.is_empty())
    }

    fn inputs(&self) -> Result<Vec<(String, Input)>, Failure> {
        let mut inputs: Vec<(String, Input)> =
            self.set.iter().map(|(name, text)| (name.clone(), Input::Text(text.clone()))).collect();
        for (name, path) in &self.set_file {
            inputs.push((name.clone(), Input::Refers(file(Path::new(path))?)));
        }
        inputs.extend(
            self.set_env.iter().map(|(name, variable)| (name.clone(), Input::Refers(Reference::Env(variable.clone())))),
        );
        Ok(inputs)
    }
}

fn file(path: &Path) -> Result<Reference, Failure> {
    let path: PathBuf = std::path::absolute(path)?;
    let text = path.to_str().ok_or_else(|| Failure::usage(format!("{} is not Unicode", path.display())))?;
    Ok(Reference::File(text.to_owned()))
}

/// The two forms of a connector, credentials and settings, filled by what was given, and by a person where `asking`.
pub(crate) fn fill(
    (credentials, config): (Option<&Form>, Option<&Form>),
    given: &Given,
    former: (Option<Former>, Option<Former>),
    places: &Places<'_>,
    asking: bool,
) -> Result<(Option<Filled>, Option<Filled>), Failure> {
    let has = |form: Option<&Form>, name: &str| {
        form.is_some_and(|form| form.variants.iter().any(|variant| variant.property(name).is_some()))
    };
    let (mut of_credentials, mut of_config) = (Vec::new(), Vec::new());
    for (name, input) in given.inputs()? {
        if has(credentials, &name) {
            of_credentials.push((name, input));
        } else if has(config, &name) {
            of_config.push((name, input));
        } else {
            let forms = credentials.into_iter().chain(config).flat_map(|form| &form.variants);
            let mut known: Vec<&str> = forms.flat_map(Variant::names).collect();
            known.dedup();
            return Err(Failure::usage(format!("there is no field {name}; there are {}", known.join(", "))));
        }
    }
    let part = |form: Option<&Form>, variant: Option<&str>, inputs: Vec<(String, Input)>, former: Option<Former>| {
        form.map(|form| fill_form(form, variant, inputs, former.as_ref(), places, asking)).transpose()
    };
    Ok((
        part(credentials, given.variant.as_deref(), of_credentials, former.0)?,
        part(config, None, of_config, former.1)?,
    ))
}

fn fill_form(
    form: &Form,
    wanted: Option<&str>,
    inputs: Vec<(String, Input)>,
    former: Option<&Former>,
    places: &Places<'_>,
    asking: bool,
) -> Result<Filled, Failure> {
    let variant = &form.variants[choose_variant(form, wanted, &inputs, former, asking)?];
    // Another kind of credentials begins anew (5.5.4).
    let former = former.filter(|former| variant.holds(&former.values));
    let mut entered = JsonObject::new();
    let mut written = JsonObject::new();
    if let Some(former) = former {
        for (name, value) in &former.values {
            // References give texts.
            let property_type = variant.property(name).map(|property| property.property_type).unwrap_or_default();
            let typed = value.as_str().and_then(|text| typed_text(property_type, text));
            entered.insert(name.clone(), typed.unwrap_or_else(|| value.clone()));
        }
        written = former.written.clone();
    } else {
        let initial = variant.fields.iter().filter_map(|field| Some((field.name.clone(), field.initial.clone()?)));
        entered.extend(initial);
    }
    for (name, input) in inputs {
        enter(variant, &name, input, &mut entered, &mut written, places)?;
    }
    if asking {
        for field in &variant.fields {
            loop {
                let kept = former.and_then(|former| former.written.get(&field.name)).map(|value| match field.secret {
                    true => "Saved; leave empty to keep it".to_owned(),
                    false => format!("empty keeps {}", terminal::shown(value)),
                });
                let Some(answer) = terminal::ask_field(field, kept.as_deref())? else { break };
                if answer.is_empty() {
                    if field.required && !entered.contains_key(&field.name) {
                        terminal::tell("It is required.")?;
                        continue;
                    }
                    break;
                }
                let long = matches!(field.kind, FieldKind::LongText { .. });
                let input = if long && Path::new(&answer).is_file() {
                    Input::Refers(file(Path::new(&answer))?)
                } else {
                    Input::Text(answer)
                };
                match enter(variant, &field.name, input, &mut entered, &mut written, places) {
                    Ok(()) => break,
                    Err(failure) => terminal::tell(&failure.to_string())?,
                }
            }
        }
    }
    let values = variant
        .values(&entered, None)
        .map_err(|problem| Failure::usage(format!("{problem}: pass it with --set, --set-file or --set-env")))?;
    let mut filled = Filled { values, ..Filled::default() };
    for (name, value) in &filled.values {
        let property = variant.property(name);
        let secret = property.is_some_and(|property| property.write_only);
        match written.get(name) {
            Some(written) => _ = filled.written.insert(name.clone(), written.clone()),
            None if secret => filled.secrets.push(name.clone()),
            None => _ = filled.written.insert(name.clone(), value.clone()),
        }
    }
    Ok(filled)
}

/// Puts a value in the place of the former one, if it fits its field.
fn enter(
    variant: &Variant,
    name: &str,
    input: Input,
    entered: &mut JsonObject,
    written: &mut JsonObject,
    places: &Places<'_>,
) -> Result<(), Failure> {
    let Some(property) = variant.property(name) else {
        let title = variant.title.as_deref().unwrap_or("this kind");
        return Err(Failure::usage(format!("{title} has no field {name}")));
    };
    let (text, reference) = match input {
        Input::Text(text) => (text, None),
        Input::Refers(reference) => {
            let text = reference.resolve(places.folder, places.project);
            (text.map_err(|problem| Failure::usage(format!("{name} {problem}")))?, Some(reference))
        }
    };
    written.remove(name);
    if text.is_empty() && reference.is_none() {
        entered.remove(name);
        return Ok(());
    }
    let value = typed_text(property.property_type, &text).unwrap_or(Value::String(text));
    property.check(&value).map_err(|problem| Failure::usage(format!("{name} {problem}")))?;
    entered.insert(name.to_owned(), value);
    if let Some(reference) = reference {
        written.insert(name.to_owned(), reference.to_value());
    }
    Ok(())
}

/// The place of the variant: the one asked for, the one that was used, the one that the fields are of, or the one that the
/// person chooses.
fn choose_variant(
    form: &Form,
    wanted: Option<&str>,
    inputs: &[(String, Input)],
    former: Option<&Former>,
    asking: bool,
) -> Result<usize, Failure> {
    let titles: Vec<String> = form
        .variants
        .iter()
        .enumerate()
        .map(|(place, variant)| variant.title.clone().unwrap_or_else(|| format!("Kind {}", place + 1)))
        .collect();
    if let Some(wanted) = wanted {
        let named = |variant: &Variant| {
            variant.title.as_deref() == Some(wanted)
                || variant.names().any(|name| {
                    let constant = variant.property(name).and_then(|property| property.constant.as_ref());
                    constant.and_then(Value::as_str) == Some(wanted)
                })
        };
        return form.variants.iter().position(named).ok_or_else(|| {
            Failure::usage(format!("there is no kind of credentials {wanted}; there are {}", titles.join(", ")))
        });
    }
    if form.variants.len() == 1 {
        return Ok(0);
    }
    let used = former.and_then(|former| form.variants.iter().position(|variant| variant.holds(&former.values)));
    if asking {
        if let Some(used) = used {
            terminal::tell(&format!("Kind of credentials: {}", titles[used]))?;
            return Ok(used);
        }
        return terminal::choose("How does it authenticate?", &titles);
    }
    let fits = |variant: &&Variant| inputs.iter().all(|(name, _)| variant.property(name).is_some());
    let fitting: Vec<usize> =
        form.variants.iter().enumerate().filter(|(_, variant)| fits(variant)).map(|(place, _)| place).collect();
    match (used.filter(|used| fitting.contains(used)), fitting.as_slice()) {
        (Some(used), _) => Ok(used),
        (None, [only]) => Ok(*only),
        (None, _) => Err(Failure::usage(format!("pass --variant, one of {}", titles.join(", ")))),
    }
}
