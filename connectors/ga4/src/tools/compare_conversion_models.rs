//! `compare_conversion_models`: the same key events as each attribution model credits them, side by side.
//!
//! Three models are dimensions of one report each: the user's first touch, the last touch of the session, and the property's
//! reporting model. Two more are conversion reports (v1alpha), which Google offers to some properties.

use std::collections::{BTreeMap, HashMap};

use acp_core::{Call, Cell, DateWindow, Error, Extraction, Hints, Result, Tool, ToolSpec};
use acp_protocol::result::{ColumnType, Header};
use futures::future::try_join_all;
use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::amount;
use crate::api::{Ga4, Property, ReportEnd, ReportRequest, TotalsRow};
use crate::fields::{Fields, Kind, shown};
use crate::filters::{Filters, tree};
use crate::question::{self, Findings};
use crate::report::{PAGE_ROWS, other_columns};

/// Each key event costs two requests more where Google offers conversion reports.
const KEY_EVENTS_MAX: usize = 5;
/// All key events together.
const ALL: &str = "keyEvents";
/// Key events of one name are metrics with this prefix.
const PREFIX: &str = "keyEvents:";
/// What conversion reports count, on the day of the conversion, like key events.
const CONVERSIONS: &str = "allConversionsByConversionDate";
/// The columns of the conversion reports, with Google's names of their models.
const CONVERSION_MODELS: [(&str, &str); 2] = [("data_driven", "DATA_DRIVEN"), ("last_click", "LAST_CLICK")];

/// Key events per channel (source, campaign) side by side: first user touch, session, the property's reporting model (event), and
/// data-driven and last-click conversions where Google offers them. Fractions are real.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompareConversionModels {
    /// Names, such as purchase. Default: all together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    key_events: Vec<String>,
    /// Default channel.
    by: Option<By>,
    /// First day (YYYY-MM-DD, NdaysAgo). Default 28daysAgo.
    #[schemars(extend("x-acp-date" = "start"))]
    start_date: Option<String>,
    /// Last day, included. Default yesterday.
    #[schemars(extend("x-acp-date" = "end"))]
    end_date: Option<String>,
    /// As in run_report: field, match_type, value.
    #[serde(default, skip_serializing_if = "Filters::is_none")]
    dimension_filters: Filters,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum By {
    #[default]
    Channel,
    SourceMedium,
    Source,
    Medium,
    Campaign,
}

impl By {
    fn column(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::SourceMedium => "source_medium",
            Self::Source => "source",
            Self::Medium => "medium",
            Self::Campaign => "campaign",
        }
    }

    /// The dimensions of the first touch, the session and the reporting model.
    fn dimensions(self) -> [&'static str; 3] {
        match self {
            Self::Channel => ["firstUserDefaultChannelGroup", "sessionDefaultChannelGroup", "defaultChannelGroup"],
            Self::SourceMedium => ["firstUserSourceMedium", "sessionSourceMedium", "sourceMedium"],
            Self::Source => ["firstUserSource", "sessionSource", "source"],
            Self::Medium => ["firstUserMedium", "sessionMedium", "medium"],
            Self::Campaign => ["firstUserCampaignName", "sessionCampaignName", "campaignName"],
        }
    }
}

/// What one model credits to each value, for each key event, in Google's own digits.
struct Credits {
    column: &'static str,
    meaning: String,
    values: HashMap<String, Vec<String>>,
    /// None where the model does not know all key events.
    totals: Vec<String>,
    /// For each key event, whether a value that is not there has none, rather than being withheld or not known.
    complete: Vec<bool>,
}

impl Tool for CompareConversionModels {
    type Source = Ga4;
    type Answer = Extraction;
    const SPEC: ToolSpec = ToolSpec {
        name: "compare_conversion_models",
        title: "Compare attribution models",
        resource: true,
        credentials: true,
        hints: Hints::READS_REMOTE,
    };

    async fn run(mut self, ga4: &Ga4, call: &Call) -> Result<Extraction> {
        let by = *self.by.get_or_insert_default();
        if self.key_events.len() > KEY_EVENTS_MAX {
            return Err(Error::invalid_arguments(format!(
                "At most {KEY_EVENTS_MAX} key_events are compared at a time. Name fewer, or none for all together."
            )));
        }
        tree(&self.dimension_filters)?;
        let property = ga4.property(call)?;
        let fields = ga4.fields(&property).await?;
        let mut findings = Findings::default();
        let metrics = self.resolve_key_events(&fields, &mut findings);
        question::resolve_filters(&fields, &mut self.dimension_filters, &mut findings);
        findings.settle(call)?;
        let window = question::resolve_dates(&mut self.start_date, &mut self.end_date, ga4, &property, call).await?;
        call.set_arguments(&self);

        call.progress(0, None, "asking for each model");
        let settings = property.setting("v1alpha", "attributionSettings");
        let reports = try_join_all(by.dimensions().map(|dimension| self.core(&property, dimension, &metrics, window)));
        let conversions = self.conversions(&property, by, &metrics, window, call);
        let (reports, settings, (conversions, missing)) = futures::join!(reports, settings, conversions);
        let reports = reports?;
        let settings = settings.map_err(|failure| failure.into_acp(&property.context));
        let attribution = match &settings {
            Ok(settings) => attribution(settings),
            Err(error) => {
                call.warn(format!("The property's attribution settings can't be read: {}", error.message()));
                Value::Null
            }
        };
        let model = attribution["reporting_model"].as_str().unwrap_or("not known");
        let meanings = [
            "Credit to the user's first touch".to_owned(),
            "Credit to the last touch of the session".to_owned(),
            format!("Credit by the property's reporting model ({model})"),
        ];
        let mut models = Vec::new();
        let columns = ["first_user", "session", "event"];
        for ((column, meaning), report) in columns.into_iter().zip(meanings).zip(&reports) {
            question::warn(&report.metadata, window, call);
            models.push(Credits::of(column, meaning, report, metrics.len())?);
        }
        models.extend(conversions);
        for (column, reason) in &missing {
            call.warn(format!("{column} is missing: {reason}"));
        }

        let rows = rows(&models, metrics.len())?;
        let differences = differences(&models);
        let mut table = call.table(self.headers(by, &models, &differences))?;
        for (value, place) in rows {
            let credits: Vec<Option<&str>> = models.iter().map(|model| model.credit(value, place)).collect();
            let deltas: Vec<Option<String>> = differences
                .iter()
                .map(|(_, [one, two])| difference(credits[*one], credits[*two]))
                .collect::<Result<_>>()?;
            let event = self.key_events.get(place).map_or("(all key events)", String::as_str);
            let deltas = deltas.iter().map(Option::as_deref);
            let numbers = credits.iter().copied().chain(deltas).map(|number| number.map_or(Cell::Null, Cell::Text));
            let cells: Vec<Cell<'_>> = [Cell::Text(value), Cell::Text(event)].into_iter().chain(numbers).collect();
            table.push(&cells)?;
        }
        let totals: Vec<(&str, String)> =
            models.iter().filter_map(|model| model.total().transpose()).collect::<Result<_>>()?;
        table.set_totals(totals.iter().map(|(name, total)| (*name, Cell::Text(total))))?;

        let last = &reports[2];
        let dimensions: Map<String, Value> =
            columns.into_iter().zip(by.dimensions()).map(|(column, name)| (column.to_owned(), json!(name))).collect();
        let extra = json!({
            "attribution": attribution,
            "dimensions": dimensions,
            "missing": missing,
            "quota": question::least_quota(&reports),
            "time_zone": last.metadata.time_zone,
        });
        let parts = [
            ("Key events", if self.key_events.is_empty() { "all".to_owned() } else { self.key_events.join(", ") }),
            ("By", by.dimensions().join(", ")),
            ("Attribution", sentence(&attribution)),
            ("Missing models", missing.keys().copied().collect::<Vec<_>>().join(", ")),
            question::shown_filters("dimension_filters", &self.dimension_filters),
        ];
        Ok(Extraction::new(table, question::describe(&property, &parts, &last.metadata))
            .title(format!("GA4 {} attribution models · {}→{}", property.id, window.start, window.end))
            .dates([window.start, window.end])
            .extra(extra)
            .source(question::source(&property, "analyticsdata.v1beta.runReport", &last.property_quota)))
    }
}

impl CompareConversionModels {
    /// Brings the names of key events into Google's spelling, and gives their metrics.
    fn resolve_key_events(&mut self, fields: &Fields, findings: &mut Findings) -> Vec<String> {
        let mut metrics: Vec<String> = Vec::new();
        for name in &mut self.key_events {
            let asked = if name.contains(':') { name.clone() } else { format!("{PREFIX}{name}") };
            match fields
                .resolve(Kind::Metric, &asked)
                .ok()
                .and_then(|found| Some(found.name.strip_prefix(PREFIX)?.to_owned()))
            {
                Some(known) => *name = known,
                None => {
                    let all = fields.all(Kind::Metric).iter().filter_map(|field| field.api_name.strip_prefix(PREFIX));
                    findings.problems.push(Error::invalid_arguments(format!(
                        "{:?} is not a key event of this property. It has: {}.",
                        shown(name),
                        all.take(30).collect::<Vec<_>>().join(", ")
                    )));
                }
            }
            metrics.push(format!("{PREFIX}{name}"));
        }
        if let Some(twice) = (1..metrics.len()).find(|place| metrics[..*place].contains(&metrics[*place])) {
            findings.problems.push(Error::invalid_arguments(format!(
                "{} is named twice. Name each key event once.",
                shown(&self.key_events[twice])
            )));
        }
        if metrics.is_empty() {
            metrics.push(ALL.to_owned());
        }
        metrics
    }

    async fn core(
        &self,
        property: &Property,
        dimension: &str,
        metrics: &[String],
        window: DateWindow,
    ) -> Result<ReportEnd> {
        let request = self.request(dimension, metrics, window)?;
        let report = property.small_report(&request).await.map_err(|failure| failure.into_acp(&property.context))?;
        whole(report, dimension)
    }

    fn request(&self, dimension: &str, metrics: &[String], window: DateWindow) -> Result<ReportRequest> {
        let dimensions = [dimension.to_owned()];
        Ok(ReportRequest {
            dimensions: question::named(&dimensions),
            metrics: question::named(metrics),
            date_ranges: vec![question::date_range(window)],
            dimension_filter: tree(&self.dimension_filters)?,
            order_bys: question::order(&[], metrics, &dimensions),
            metric_aggregations: vec!["TOTAL"],
            limit: Some(PAGE_ROWS),
            return_property_quota: true,
            ..ReportRequest::default()
        })
    }

    /// The models of conversion reports, and why one is missing: Google offers them to some properties, and only for key events
    /// that count as conversions. What they lack must not stop the other models.
    async fn conversions(
        &self,
        property: &Property,
        by: By,
        metrics: &[String],
        window: DateWindow,
        call: &Call,
    ) -> (Vec<Credits>, BTreeMap<&'static str, String>) {
        let all_missing = |reason: String| {
            (Vec::new(), CONVERSION_MODELS.iter().map(|(column, _)| (*column, reason.clone())).collect())
        };
        let known = match property.conversions().await {
            Ok(known) => known,
            Err(failure) => return all_missing(failure.into_acp(&property.context).message().to_owned()),
        };
        if known.is_empty() {
            return all_missing("Google offers no conversion reports for this property.".to_owned());
        }
        let mut actions: Vec<Option<Vec<&str>>> = Vec::new();
        for metric in metrics {
            let action =
                |name: &str| known.iter().find(|conversion| conversion.display_name.eq_ignore_ascii_case(name));
            actions.push(match metric.strip_prefix(PREFIX) {
                None => Some(Vec::new()),
                Some(name) => action(name).map(|conversion| vec![conversion.conversion_action.as_str()]),
            });
        }
        if actions.iter().all(Option::is_none) {
            return all_missing("none of these key events counts as a conversion.".to_owned());
        }
        for (name, _) in self.key_events.iter().zip(&actions).filter(|(_, action)| action.is_none()) {
            call.warn(format!(
                "{name} counts as no conversion of Google Ads: data_driven and last_click are null for it."
            ));
        }
        let (mut models, mut missing) = (Vec::new(), BTreeMap::new());
        let ask = async |model: &str| {
            let reports = actions.iter().map(async |actions| match actions {
                None => Ok(None),
                Some(actions) => {
                    let spec = json!({"conversionActions": actions, "attributionModel": model});
                    let request = ReportRequest {
                        conversion_spec: Some(spec),
                        ..self.request(by.dimensions()[2], &[CONVERSIONS.to_owned()], window)?
                    };
                    let report = property.small_report(&request).await;
                    whole(report.map_err(|failure| failure.into_acp(&property.context))?, by.dimensions()[2]).map(Some)
                }
            });
            try_join_all(reports).await
        };
        let reports = CONVERSION_MODELS.map(|(_, model)| ask(model));
        for ((column, model), reports) in CONVERSION_MODELS.into_iter().zip(futures::future::join_all(reports).await) {
            let meaning = format!("Conversions as {model} credits them; key events that are no conversions have none");
            match reports.and_then(|reports| Credits::joined(column, meaning, &reports)) {
                Ok(credits) => models.push(credits),
                Err(error) => drop(missing.insert(column, error.message().to_owned())),
            }
        }
        (models, missing)
    }

    fn headers(&self, by: By, models: &[Credits], differences: &[(String, [usize; 2])]) -> Vec<Header> {
        let described = |header: Header, text: &str| Header { description: Some(text.to_owned()), ..header };
        let number = |name: &str, text: &str| described(Header::metric(name, ColumnType::Number), text);
        let mut headers = vec![
            described(
                Header::dimension(by.column(), ColumnType::String),
                "What is credited; 0 where a model credits nothing to it, null where Google may have withheld it",
            ),
            Header::dimension("key_event", ColumnType::String),
        ];
        headers.extend(models.iter().map(|model| number(model.column, &model.meaning)));
        headers.extend(differences.iter().map(|(name, _)| number(name, "Difference of the two models")));
        headers
    }
}

impl Credits {
    fn of(column: &'static str, meaning: String, report: &ReportEnd, metrics: usize) -> Result<Self> {
        let texts = |row: &TotalsRow| -> Result<Vec<String>> {
            match row.metric_values.len() == metrics {
                true => Ok(row.metric_values.iter().map(|value| value.value.clone()).collect()),
                false => Err(other_columns()),
            }
        };
        let mut values = HashMap::new();
        for row in &report.rows {
            let [value] = row.dimension_values.as_slice() else {
                return Err(other_columns());
            };
            values.insert(value.value.clone(), texts(row)?);
        }
        let totals = report.totals.first().map(texts).transpose()?.unwrap_or_default();
        let complete = !report.metadata.subject_to_thresholding && !report.metadata.data_loss_from_other_row;
        Ok(Self { column, meaning, values, totals, complete: vec![complete; metrics] })
    }

    /// Reports of one metric each as one; a report that could not be asked for has no credits.
    fn joined(column: &'static str, meaning: String, reports: &[Option<ReportEnd>]) -> Result<Self> {
        let complete = vec![false; reports.len()];
        let mut all = Self { column, meaning, values: HashMap::new(), totals: Vec::new(), complete };
        for (place, report) in reports.iter().enumerate() {
            let Some(report) = report else { continue };
            let one = Self::of(column, String::new(), report, 1)?;
            all.complete[place] = one.complete[0];
            all.totals.extend(one.totals);
            for (value, credit) in one.values {
                let credits = all.values.entry(value).or_insert_with(|| vec![String::new(); reports.len()]);
                credits[place] = credit.into_iter().next().unwrap_or_default();
            }
        }
        if all.totals.len() < reports.len() {
            all.totals.clear();
        }
        Ok(all)
    }

    /// What is credited to a value for a key event. Reports leave rows of zeros out.
    fn credit(&self, value: &str, place: usize) -> Option<&str> {
        let found = self.values.get(value).map(|credits| credits[place].as_str()).filter(|credit| !credit.is_empty());
        found.or(self.complete[place].then_some("0"))
    }

    /// All that the model credits, of all key events that were asked for.
    fn total(&self) -> Result<Option<(&'static str, String)>> {
        if self.totals.is_empty() {
            return Ok(None);
        }
        let mut sum = Decimal::ZERO;
        for total in &self.totals {
            amount::add(&mut sum, amount::read(total)?.unwrap_or_default())?;
        }
        Ok(Some((self.column, amount::digits(sum))))
    }
}

/// A report that has all of its rows.
fn whole(report: ReportEnd, dimension: &str) -> Result<ReportEnd> {
    match report.rows.len() as u64 {
        rows if rows == report.row_count => Ok(report),
        PAGE_ROWS => Err(Error::invalid_arguments(format!(
            "{dimension} has {} values; at most {PAGE_ROWS} are compared. Compare by channel, or add dimension_filters.",
            report.row_count
        ))),
        rows => Err(Error::upstream(format!(
            "The report is not complete: Google announced {} rows and sent {rows}. Run it again.",
            report.row_count
        ))),
    }
}

/// The values that any model credits with each key event: those with most credit by the property's own model first.
fn rows(models: &[Credits], key_events: usize) -> Result<Vec<(&str, usize)>> {
    let mut values: Vec<&str> = models.iter().flat_map(|model| model.values.keys().map(String::as_str)).collect();
    values.sort_unstable();
    values.dedup();
    let mut rows = Vec::new();
    for value in values {
        for place in 0..key_events {
            let credits = models.iter().filter_map(|model| model.values.get(value)).map(|credits| &credits[place]);
            let mut credited = false;
            for credit in credits {
                credited |= amount::read(credit)?.is_some_and(|credit| !credit.is_zero());
            }
            if credited {
                let event = amount::read(models[2].credit(value, place).unwrap_or_default())?.unwrap_or_default();
                rows.push((std::cmp::Reverse(event), value, place));
            }
        }
    }
    rows.sort_unstable();
    Ok(rows.into_iter().map(|(_, value, place)| (value, place)).collect())
}

/// The columns that show a difference: their names and the models they compare.
fn differences(models: &[Credits]) -> Vec<(String, [usize; 2])> {
    let place = |column: &str| models.iter().position(|model| model.column == column);
    [("session", "first_user"), ("event", "session"), ("data_driven", "last_click")]
        .into_iter()
        .filter_map(|(one, two)| Some((format!("{one}_minus_{two}"), [place(one)?, place(two)?])))
        .collect()
}

fn difference(one: Option<&str>, two: Option<&str>) -> Result<Option<String>> {
    let read = |text: Option<&str>| text.map_or(Ok(None), amount::read);
    Ok(match (read(one)?, read(two)?) {
        (Some(one), Some(two)) => Some(amount::digits(one - two)),
        _ => None,
    })
}

/// Google's attribution settings, in words.
fn attribution(settings: &Value) -> Value {
    let words = |key: &str, prefix: &str| {
        let text = settings.get(key)?.as_str()?;
        Some(text.strip_prefix(prefix).unwrap_or(text).replace('_', " ").to_lowercase())
    };
    json!({
        "reporting_model": words("reportingAttributionModel", ""),
        "acquisition_lookback":
            words("acquisitionConversionEventLookbackWindow", "ACQUISITION_CONVERSION_EVENT_LOOKBACK_WINDOW_"),
        "other_lookback": words("otherConversionEventLookbackWindow", "OTHER_CONVERSION_EVENT_LOOKBACK_WINDOW_"),
    })
}

/// The settings for the description.
fn sentence(attribution: &Value) -> String {
    let part = |title: &str, key: &str| Some(format!("{title} {}", attribution[key].as_str()?));
    let parts = [
        part("reporting model", "reporting_model"),
        part("look-back of acquisition events", "acquisition_lookback"),
        part("look-back of other key events", "other_lookback"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
