//! `checkCompatibility`: which fields can be added to a report.

use serde_json::{Value, json};

use super::catalogue::{Catalogue, Dimension, Metric, conflict};
use super::request::{Filter, ReportRequest};
use super::{metadata, report};
use crate::google_error::GoogleError;
use crate::world::{Kind, Property};

/// A request that is itself incompatible is refused, like a report.
pub(crate) fn check(property: &Property, body: &Value) -> Result<Value, GoogleError> {
    let (request, only) = ReportRequest::compatibility(body)?;
    let catalogue = Catalogue::of(property);
    let bare = request.dimensions.is_empty() && request.metrics.is_empty();
    let (mut dimensions, metrics): (Vec<&Dimension>, Vec<&Metric>) = if bare {
        (Vec::new(), Vec::new())
    } else {
        let selected = report::select(&request, &catalogue)?;
        (selected.dimensions, selected.metrics)
    };
    let filtered = request.dimension_filter.iter().flat_map(Filter::fields);
    dimensions.extend(filtered.filter_map(|field| catalogue.dimension(field)));
    let verdict = |compatible: bool| match only {
        Some(wanted) if wanted != compatible => None,
        _ if compatible => Some("COMPATIBLE"),
        _ => Some("INCOMPATIBLE"),
    };
    let restricted = property.kind == Kind::RevenueRestricted;
    let mut dimension_list = Vec::new();
    for candidate in &catalogue.dimensions {
        let mut with = dimensions.clone();
        with.push(candidate);
        if let Some(verdict) = verdict(conflict(&with, &metrics).is_none()) {
            dimension_list.push(json!({
                "dimensionMetadata": metadata::dimension(candidate), "compatibility": verdict,
            }));
        }
    }
    let mut metric_list = Vec::new();
    for candidate in &catalogue.metrics {
        let mut with = metrics.clone();
        with.push(candidate);
        if let Some(verdict) = verdict(conflict(&dimensions, &with).is_none()) {
            metric_list.push(json!({
                "metricMetadata": metadata::metric(candidate, restricted), "compatibility": verdict,
            }));
        }
    }
    let mut answer = json!({});
    if !dimension_list.is_empty() {
        answer["dimensionCompatibilities"] = Value::Array(dimension_list);
    }
    if !metric_list.is_empty() {
        answer["metricCompatibilities"] = Value::Array(metric_list);
    }
    Ok(answer)
}
