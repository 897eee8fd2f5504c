//! GA4 properties: what people write for one, and which ones a credential sees.

use acp_core::{Call, Error, Resource, Result};
use acp_protocol::autocontext::ResourceSummary;

use crate::api::Ga4;

/// Addresses of Analytics pages that belong to a property, as a JavaScript regular expression.
pub(crate) const URL_PATTERN: &str = r"^https://analytics\.google\.com/analytics/web/[^#]*#/([a-z]+/)?(a\d+)?p\d+";

/// Ids that people find in tags and take for a property id.
const TAG_PREFIXES: [(&str, &str); 5] = [
    ("G-", "a measurement id of a data stream"),
    ("GT-", "a Google tag id"),
    ("AW-", "a Google Ads id"),
    ("DC-", "a Floodlight id"),
    ("UA-", "a Universal Analytics property, which no longer has data"),
];

/// The property in `123456789`, `properties/123456789` or the address of an Analytics page.
pub(crate) fn parse(id: &str) -> Result<Resource> {
    let id = id.trim();
    let digits = match id.strip_prefix("https://") {
        Some(address) => from_address(address),
        None => Some(id.strip_prefix("properties/").unwrap_or(id)),
    };
    if let Some(digits) = digits
        && (1..=18).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Ok(Resource { id: digits.to_owned(), level: "property" });
    }
    let upper = id.to_ascii_uppercase();
    let tag = TAG_PREFIXES.iter().find(|(prefix, _)| upper.starts_with(prefix));
    Err(Error::resource_not_found(match tag {
        Some((prefix, meaning)) => format!(
            "resource_id is {meaning} ({prefix}…), not a property. Use the numeric property id (<propertyId>, such as \
             123456789); autocontext without arguments lists the available ones."
        ),
        None => "resource_id must be a numeric GA4 property id (<propertyId>, such as 123456789), properties/123456789 or the \
                 address of an Analytics page. Call autocontext without arguments to list the available properties."
            .to_owned(),
    }))
}

/// The property in `analytics.google.com/analytics/web/#/a1p123456789/…`.
fn from_address(address: &str) -> Option<&str> {
    let place = address.strip_prefix("analytics.google.com/analytics/web/")?.split_once("#/")?.1;
    // Explorations stand below `analysis/`.
    let place = match place.split_once('/') {
        Some((section, rest)) if section.bytes().all(|byte| byte.is_ascii_lowercase()) => rest,
        _ => place,
    };
    let place = match place.strip_prefix('a') {
        Some(account) => account.trim_start_matches(|mark: char| mark.is_ascii_digit()),
        None => place,
    };
    let property = place.strip_prefix('p')?;
    let end = property.find(|mark: char| !mark.is_ascii_digit()).unwrap_or(property.len());
    Some(&property[..end])
}

/// Every property that the credentials list, in Google's order.
pub(crate) async fn list(ga4: &Ga4, call: &Call) -> Result<Vec<ResourceSummary>> {
    let mut resources = Vec::new();
    for account in ga4.account_summaries(call).await? {
        for property in account.property_summaries {
            let Some(id) = property.property.strip_prefix("properties/") else { continue };
            let description = match property.property_type.as_str() {
                "PROPERTY_TYPE_ROLLUP" => Some("Roll-up property".to_owned()),
                "PROPERTY_TYPE_SUBPROPERTY" => Some("Subproperty".to_owned()),
                _ => None,
            };
            resources.push(ResourceSummary {
                description,
                group: Some(account.display_name.clone()).filter(|name| !name.is_empty()),
                ..ResourceSummary::new(id, property.display_name)
            });
        }
    }
    Ok(resources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_way_to_write_a_property_is_understood() {
        for id in [
            "123456789",
            " 123456789 ",
            "properties/123456789",
            "https://analytics.google.com/analytics/web/#/p123456789/reports/intelligenthome",
            "https://analytics.google.com/analytics/web/#/a55p123456789/admin",
            "https://analytics.google.com/analytics/web/#/analysis/p123456789/edit/x",
            "https://analytics.google.com/analytics/web/?authuser=1#/p123456789",
        ] {
            assert_eq!(parse(id).unwrap().id, "123456789", "{id}");
        }
    }

    #[test]
    fn what_is_not_a_property_is_explained() {
        for (id, needle) in [
            ("G-ABC123", "measurement id"),
            ("ua-1-2", "Universal"),
            ("AW-1", "Ads"),
            ("", "numeric"),
            ("properties/", "numeric"),
            ("properties/0x1", "numeric"),
            ("12 34", "numeric"),
            ("1234567890123456789", "numeric"),
            ("https://analytics.google.com/analytics/web/#/a55/admin", "numeric"),
            ("https://evil.example/analytics/web/#/p1", "numeric"),
            ("../../1", "numeric"),
        ] {
            let error = parse(id).unwrap_err();
            assert!(error.message().contains(needle), "{id}: {error}");
        }
    }
}
