//! Which property is meant: resolved against the account's list, never another kind in silence.

use serde_json::json;

use super::bench::{DOMAIN, Google, Gsc, SHOP};

/// Research 2.9; complaints 50 to 53.
#[test]
fn a_property_may_be_written_in_every_usual_way() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let question = |id: &str| json!({"resource_id": id, "dimensions": ["device"], "start_date": "20daysAgo", "end_date": "10daysAgo"});
    for (written, property, noted) in [
        (DOMAIN, DOMAIN, false),
        ("SC-Domain:Nordwind.example", DOMAIN, false),
        ("sc-domain%3Anordwind.example", DOMAIN, false),
        ("nordwind.example", DOMAIN, false),
        (
            "https://search.google.com/search-console/performance/search-analytics?resource_id=sc-domain%3Anordwind.example",
            DOMAIN,
            false,
        ),
        (SHOP, SHOP, false),
        ("https://WWW.nordwind.example", SHOP, false),
        ("https%3A%2F%2Fwww.nordwind.example%2F", SHOP, false),
        (
            "https://search.google.com/u/2/search-console?resource_id=https%3A%2F%2Fwww.nordwind.example%2F&hl=en",
            SHOP,
            false,
        ),
        ("https://www.nordwind.example/blog", "https://www.nordwind.example/blog/", false),
        ("https://www.nordwind.example/blog/oak-oil?x=1", "https://www.nordwind.example/blog/", true),
        ("https://www.nordwind.example/shop/chair", SHOP, true),
        ("https://cdn.nordwind.example/file", DOMAIN, true),
        ("sc-domain:möbel.example", "sc-domain:xn--mbel-5qa.example", false),
        ("help.nordwind.example", "https://help.nordwind.example/", false),
    ] {
        let answer = gsc.search(&question(written)).ok();
        assert_eq!(answer.info()["resource_id"], property, "{written}");
        assert_eq!(answer.info()["source"]["property"], property, "{written}");
        let note = answer.warnings().into_iter().find(|warning| warning.contains("whole property"));
        assert_eq!(note.is_some(), noted, "{written}: {note:?}");
    }
    // Blocks are read for the same property.
    let blocks = gsc
        .call(
            "autocontext",
            &json!({"resource_id": "https://www.nordwind.example/blog/x", "request_data": ["available_date_range"]}),
            &json!({}),
        )
        .ok();
    assert_eq!(blocks.info()["resource_id"], "https://www.nordwind.example/blog/");
    assert!(blocks.info()["warnings"].to_string().contains("whole property"));
    gsc.end_well();
}

#[test]
fn what_is_not_clear_is_answered_with_candidates() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    for (written, needles) in [
        // A prefix is not rewritten to the domain.
        ("https://nordwind.example/", &["not in the list", DOMAIN, SHOP][..]),
        ("https://shop.nordwind.example/", &["not in the list", DOMAIN]),
        ("sc-domain:www.nordwind.example", &["not in the list", SHOP]),
        ("amrum.example", &["several", "https://amrum.example/", "http://amrum.example/"]),
        ("sc-domain:harbour.example", &["unverified"]),
        ("https://nobody.example/", &["not in the list", "autocontext"]),
        ("https://limited-only.example/", &["not in the list"]),
        ("example", &["sc-domain:example.com"]),
        ("123456789", &["sc-domain:example.com"]),
    ] {
        google.calm();
        let message = gsc.search(&json!({"resource_id": written, "dimensions": ["device"]})).refused(-32014);
        for needle in needles {
            assert!(message.contains(needle), "{written}: {message}");
        }
        assert_eq!(google.asked("/searchAnalytics/query").len(), 0, "{written}");
    }
}

/// Complaint 55; 6.3.
#[test]
fn the_list_says_what_each_property_is() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let list = gsc.call("autocontext", &json!({"resource_id": null}), &json!({})).ok().model();
    let total =
        google.facts()["sites"].as_array().expect("sites").iter().filter(|site| site["full"].is_string()).count();
    assert_eq!(list["total_available"], total);
    let shown = list["resources"].as_array().expect("resources");
    assert_eq!(shown.len(), 25);
    assert_eq!((&shown[0]["resource_id"], &shown[0]["name"]), (&json!(DOMAIN), &json!("nordwind.example")));
    assert!(shown[0]["description"].as_str().is_some_and(|text| text.contains("Domain property")));
    let found = gsc.call("autocontext", &json!({"resource_id": null, "query": "harbour"}), &json!({})).ok().model();
    let unverified = found["resources"]
        .as_array()
        .expect("resources")
        .iter()
        .find(|entry| entry["resource_id"] == "sc-domain:harbour.example");
    assert!(
        unverified.is_some_and(|entry| entry["description"].as_str().is_some_and(|text| text.contains("UNVERIFIED"))),
        "{found}"
    );
    // The list is kept: resolving names does not ask again.
    google.calm();
    gsc.search(&json!({"dimensions": ["device"]})).ok();
    assert!(google.asked("/webmasters/v3/sites").len() <= 1);
    google.calm();
    gsc.search(&json!({"dimensions": ["device"]})).ok();
    assert_eq!(google.asked("/webmasters/v3/sites").len(), 0);
}

/// An account without a single property has no `siteEntry` at all; that is an empty list and no error.
#[test]
fn an_account_without_properties_has_an_empty_list() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    google.fault(
        &json!({"path": "/webmasters/v3/sites$", "times": 9, "action": {"status": {"code": 200, "body": "{}"}}}),
    );
    let list = gsc.call("autocontext", &json!({"resource_id": null}), &json!({})).ok().model();
    assert_eq!(list["total_available"], 0);
}
