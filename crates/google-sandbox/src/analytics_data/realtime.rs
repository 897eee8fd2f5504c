//! `runRealtimeReport`: the last half hour, with a short list of fields and no offset.

use super::catalogue::{Catalogue, Dimension, Scope};
use super::engine::Window;
use super::report::{Report, run_over};
use super::request::ReportRequest;
use crate::clock;
use crate::google_error::GoogleError;
use crate::world::Property;

/// Minutes a Standard property can look back.
const MINUTES: i64 = 30;

const MINUTE_MICROS: i64 = 60_000_000;

const DIMENSIONS: [&str; 9] = [
    "unifiedScreenName",
    "eventName",
    "country",
    "countryId",
    "city",
    "deviceCategory",
    "platform",
    "streamName",
    "customUser:tier",
];

const METRICS: [&str; 4] = ["activeUsers", "eventCount", "screenPageViews", "keyEvents"];

/// The fields of realtime reports.
fn catalogue(property: &Property) -> Catalogue {
    let mut catalogue = Catalogue::of(property);
    catalogue.dimensions.retain(|d| DIMENSIONS.contains(&d.api_name));
    catalogue.dimensions.push(Dimension {
        api_name: "minutesAgo",
        ui_name: "Realtime minutes ago",
        category: "Time",
        scope: Scope::Time,
        deprecated: &[],
        custom: false,
    });
    catalogue.metrics.retain(|m| METRICS.contains(&m.api_name.as_str()));
    catalogue
}

/// Computes a realtime report from the log.
pub(crate) fn run(property: &Property, request: &ReportRequest) -> Result<Report, GoogleError> {
    let now = clock::now_micros();
    let whole = [(MINUTES - 1, 0, None)];
    let ranges = if request.minute_ranges.is_empty() { whole.as_slice() } else { request.minute_ranges.as_slice() };
    if ranges.len() > 2 {
        return Err(GoogleError::invalid(format!(
            "Requests are limited to 2 minuteRanges.\n  This request contains {} minuteRanges.",
            ranges.len()
        )));
    }
    let events = &property.data.rows().events;
    let mut windows = Vec::new();
    for (index, (from, to, name)) in ranges.iter().enumerate() {
        if !(0..MINUTES).contains(from) || !(0..=*from).contains(to) {
            return Err(GoogleError::invalid(format!(
                "Invalid minuteRange: startMinutesAgo = {from}, endMinutesAgo = {to}. Both must be from 0 to {}, \
                 and startMinutesAgo must not be smaller.",
                MINUTES - 1
            )));
        }
        let oldest = now - (from + 1) * MINUTE_MICROS;
        let newest = now - to * MINUTE_MICROS;
        let start = events.partition_point(|event| event.micros <= oldest);
        let end = events.partition_point(|event| event.micros <= newest);
        windows.push(Window {
            name: name.clone().unwrap_or_else(|| format!("date_range_{index}")),
            events: start..end.max(start),
            first_day: 0,
        });
    }
    run_over(property, request, &catalogue(property), &windows, now, 1)
}
