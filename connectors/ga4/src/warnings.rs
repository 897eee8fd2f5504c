//! What Google says about a report in its metadata, as one plain sentence each.

use acp_google::clean;
use serde_json::Value;

use crate::api::ReportMetadata;

/// The sentences of a report; none when nothing is wrong.
pub(crate) fn of_report(metadata: &ReportMetadata) -> Vec<String> {
    let mut warnings = Vec::new();
    if metadata.data_loss_from_other_row {
        warnings.push(
            "Google rolled rare combinations into the row \"(other)\": rows are incomplete, totals stay right. Use a shorter \
             date range or fewer dimensions."
                .to_owned(),
        );
    }
    if metadata.subject_to_thresholding {
        warnings.push(
            "Google may have withheld rows with few users to protect them: do not read a missing row as zero."
                .to_owned(),
        );
    }
    for (place, sampling) in metadata.sampling_metadatas.iter().enumerate() {
        if let Some(share) = sampled_share(sampling) {
            let what = match metadata.sampling_metadatas.len() {
                1 => "The report".to_owned(),
                _ => format!("Date range {}", place + 1),
            };
            warnings.push(format!(
                "{what} is an estimate from a sample of {share:.1} % of the events. A shorter date range may not be sampled."
            ));
        }
    }
    warnings.extend(metadata.data_truncation_reasons.iter().map(truncation));
    warnings.extend(metadata.schema_restriction_response.iter().flat_map(restrictions));
    if !metadata.empty_reason.is_empty() {
        warnings.push(format!(
            "Google's reason for an empty report: {}.",
            clean(metadata.empty_reason.trim_end_matches('.'), 200)
        ));
    }
    warnings
}

/// Percent of the events that were read; counts are int64, which JSON carries as text.
fn sampled_share(sampling: &Value) -> Option<f64> {
    let count = |name: &str| {
        let value = sampling.get(name)?;
        value.as_f64().or_else(|| value.as_str()?.parse().ok())
    };
    let (read, space) = (count("samplesReadCount")?, count("samplingSpaceSize")?);
    (space > 0.0).then(|| 100.0 * read / space)
}

fn truncation(reason: &Value) -> String {
    let text = |name: &str| reason.get(name).and_then(Value::as_str).map(|text| clean(text, 300));
    let message = text("dataTruncationMessage").or_else(|| text("message"));
    let kind = text("dataTruncationReasonType").or_else(|| text("reason")).or_else(|| text("type"));
    match (message, kind) {
        (Some(message), _) => format!("Google cut the data of this report: {}.", message.trim_end_matches('.')),
        (None, Some(kind)) => format!("Google cut the data of this report ({kind})."),
        (None, None) => "Google cut the data of this report without saying why.".to_owned(),
    }
}

fn restrictions(response: &Value) -> Vec<String> {
    let active = response.get("activeMetricRestrictions").and_then(Value::as_array);
    let restricted: Vec<String> = active
        .into_iter()
        .flatten()
        .filter_map(|restriction| {
            let name = clean(restriction.get("metricName")?.as_str()?, 80);
            let kinds: Vec<&str> =
                restriction.get("restrictedMetricTypes")?.as_array()?.iter().filter_map(Value::as_str).collect();
            let what = match (kinds.contains(&"COST_DATA"), kinds.contains(&"REVENUE_DATA")) {
                (true, true) => "cost and revenue data",
                (true, false) => "cost data",
                (false, true) => "revenue data",
                (false, false) => "some data",
            };
            Some(format!("These credentials may not see {what}: {name} reads 0, which is not its value."))
        })
        .collect();
    restricted
}

/// The sentence for a metric that this identity may not see, known before the report is asked for.
pub(crate) fn of_blocked_metric(name: &str, reasons: &[String]) -> Option<String> {
    let what = match reasons {
        [] => return None,
        reasons if reasons.iter().any(|reason| reason.contains("REVENUE")) => "revenue data",
        reasons if reasons.iter().any(|reason| reason.contains("COST")) => "cost data",
        _ => "some data",
    };
    Some(format!("These credentials may not see {what}: {name} reads 0, which is not its value."))
}

/// The sentence for a metric that is 0 in all of a report, where Google counts nothing until something is set up.
pub(crate) fn of_zero_metric(name: &str) -> Option<String> {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
    let needs = match name {
        // A key event that did not happen is a figure.
        name if name.contains(':') => return None,
        "totalAdRevenue" => "a linked AdMob or Ad Manager account",
        _ if begins(&["advertiserAd", "returnOnAdSpend"]) => "a linked Google Ads account",
        _ if begins(&["publisherAd"]) => "a linked AdMob or Ad Manager account",
        _ if begins(&["organicGoogleSearch"]) => "a linked Search Console property",
        name if name.contains("Revenue") || name.contains("urchase") => {
            "events of a shop, such as purchase with its value"
        }
        _ if begins(&["item", "transactions", "addToCarts", "checkouts"]) => "events of a shop, such as view_item",
        _ => return None,
    };
    Some(format!(
        "{name} is 0 in all of the report. It takes {needs}: without that, 0 means not measured rather than none."
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn warnings(metadata: Value) -> Vec<String> {
        of_report(&serde_json::from_value(metadata).unwrap())
    }

    #[test]
    fn nothing_wrong_says_nothing() {
        assert_eq!(warnings(json!({"currencyCode": "EUR", "timeZone": "Europe/Berlin"})), Vec::<String>::new());
        assert_eq!(of_blocked_metric("sessions", &[]), None);
    }

    #[test]
    fn every_flag_is_one_sentence() {
        for (metadata, needle) in [
            (json!({"dataLossFromOtherRow": true}), "(other)"),
            (json!({"subjectToThresholding": true}), "withheld"),
            (json!({"samplingMetadatas": [{"samplesReadCount": "413", "samplingSpaceSize": "1000"}]}), "41.3 %"),
            (
                json!({"dataTruncationReasons": [{"dataTruncationMessage": "Data before 2026-01-01 is gone."}]}),
                "before 2026-01-01 is gone.",
            ),
            (json!({"dataTruncationReasons": [{"reason": "PROPERTY"}]}), "PROPERTY"),
            (
                json!({"schemaRestrictionResponse": {"activeMetricRestrictions": [{"metricName": "totalRevenue", "restrictedMetricTypes": ["REVENUE_DATA"]}]}}),
                "totalRevenue reads 0",
            ),
            (json!({"emptyReason": "No data"}), "No data."),
        ] {
            let found = warnings(metadata.clone());
            assert_eq!(found.len(), 1, "{metadata}");
            assert!(found[0].contains(needle) && found[0].ends_with('.'), "{}", found[0]);
        }
        for (name, words) in [
            ("publisherAdClicks", "AdMob"),
            ("advertiserAdCostPerClick", "Google Ads"),
            ("organicGoogleSearchClicks", "Search Console"),
            ("totalRevenue", "purchase with its value"),
            ("totalAdRevenue", "AdMob"),
            ("ecommercePurchases", "purchase"),
            ("itemsViewed", "view_item"),
        ] {
            assert!(of_zero_metric(name).is_some_and(|sentence| sentence.contains(words)), "{name}");
        }
        for name in ["sessions", "eventCount", "keyEvents:purchase", "keyEvents", "bounceRate"] {
            assert_eq!(of_zero_metric(name), None, "{name}");
        }
        assert!(of_blocked_metric("x", &["NO_COST_METRICS".to_owned()]).unwrap().contains("cost data"));
    }
}
