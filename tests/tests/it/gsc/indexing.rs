//! `inspect_urls` and `list_sitemaps`.

use serde_json::{Value, json};

use super::bench::{Answer, DOMAIN, Google, Gsc, SearchConsole};

/// Listed with rights that do not include inspections.
const RESTRICTED: &str = "https://agency-client.example/";
const HOME: &str = "https://www.nordwind.example/";

fn inspect(gsc: &mut Gsc, urls: &[&str]) -> Answer {
    gsc.call("inspect_urls", &json!({"urls": urls}), &json!({}))
}

fn inspections(google: &Google) -> usize {
    google.asked("/index:inspect").len()
}

fn page(path: &str) -> String {
    format!("{HOME}{path}")
}

#[test]
fn each_url_has_a_row_and_one_that_fails_says_why() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let foreign = "https://elsewhere.example/";
    let urls = [
        HOME,
        &page("search"),
        &page("old/x"),
        &page("private/x"),
        &page("print/x"),
        &page("never-heard-of"),
        "https://help.nordwind.example/",
        foreign,
        "/blog/",
        &format!(" {HOME} "),
    ];
    let answer = inspect(&mut gsc, &urls).ok();
    let rows = answer.rows();
    assert_eq!(answer.column("url"), urls[..9], "each once, in their order");
    assert_eq!(inspections(&google), 7, "what can't be of the property costs nothing");
    let verdicts: Vec<&str> = rows.iter().map(|row| row["verdict"].as_str().unwrap_or("-")).collect();
    assert_eq!(verdicts[..6], ["PASS", "NEUTRAL", "FAIL", "FAIL", "NEUTRAL", "NEUTRAL"]);
    assert_eq!(rows[0]["coverage_state"], "Submitted and indexed");
    assert_eq!((&rows[0]["google_canonical"], &rows[0]["canonicals_agree"]), (&json!(HOME), &json!(true)));
    assert_eq!(rows[0]["sitemaps"], json!([page("sitemap_index.xml")]));
    assert_eq!(answer.header("last_crawl_time")["type"], "datetime");
    assert!(rows[0]["last_crawl_time"].as_str().unwrap().ends_with('Z'));
    // What Google does not say is null, not a text.
    for column in [
        "last_crawl_time",
        "google_canonical",
        "canonicals_agree",
        "sitemaps",
        "rich_results_verdict",
        "rich_result_errors",
    ] {
        assert_eq!(rows[5][column], Value::Null, "{column}");
    }
    assert!(rows[..7].iter().all(|row| row["error"].is_null()), "{rows:?}");
    assert!(rows[7]["error"].as_str().unwrap().contains("does not belong"), "{}", rows[7]);
    assert!(rows[8]["error"].as_str().unwrap().contains("whole address"), "{}", rows[8]);
    assert_eq!(
        answer.model()["extra"],
        json!({"inspected": 7, "failed": 2, "not_inspected": {"count": 0, "urls": []}})
    );
    assert!(answer.warnings().iter().any(|warning| warning.contains("1 repeated")), "{:?}", answer.warnings());
    gsc.end_well();
}

#[test]
fn rich_results_are_counted_by_severity() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let pages = google.truth(
        DOMAIN,
        &json!({"startDate": google.final_day(27), "endDate": google.final_day(0), "dimensions": ["page"]}),
    );
    let products: Vec<&str> = pages
        .iter()
        .filter_map(|row| row["keys"][0].as_str())
        .filter(|page| page.contains("/product"))
        .take(12)
        .collect();
    let rows = inspect(&mut gsc, &products).ok().rows();
    let mut seen = [0, 0];
    for row in &rows {
        let broken = row["rich_results_verdict"] == "FAIL";
        seen[usize::from(broken)] += 1;
        assert_eq!(
            (&row["rich_result_errors"], &row["rich_result_warnings"]),
            (&json!(i32::from(broken)), &json!(i32::from(!broken))),
            "{row}"
        );
        assert_eq!(row["rich_result_types"], json!(["Product snippets"]));
        let message = row["rich_result_issues"][0].as_str().unwrap();
        assert!(message.contains(if broken { "price" } else { "review" }), "{row}");
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    gsc.end_well();
}

#[test]
fn the_quota_ends_a_batch_and_the_rest_is_named() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let urls: Vec<String> = (0..12).map(|number| page(&format!("page-{number}"))).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    google.switch(&json!({"inspections": {"site": DOMAIN, "left": 4}}));
    let answer = inspect(&mut gsc, &urls).ok();
    let rows = answer.rows();
    let is_left = |row: &&Value| row["error"].as_str().is_some_and(|error| error.contains("Not inspected"));
    let left: Vec<&str> = rows.iter().filter(is_left).filter_map(|row| row["url"].as_str()).collect();
    assert_eq!((rows.len(), left.len()), (12, 8), "one row per URL");
    assert!(rows.iter().all(|row| row["error"].is_null() != row["verdict"].is_null()));
    assert!(inspections(&google) <= 7, "nothing is asked once the quota is known to be used up");
    assert_eq!(answer.model()["extra"]["not_inspected"], json!({"count": 8, "urls": left}));
    let warnings = answer.warnings();
    assert!(warnings[0].starts_with("PARTIAL: 8 of 12") && warnings[0].contains("quota"), "{warnings:?}");
    assert_eq!(answer.info()["source"]["partial"], true);
    // With nothing left at all there is no table.
    let message = inspect(&mut gsc, &urls).refused(-32018);
    assert!(message.contains("Quota exceeded"), "{message}");
    gsc.end_well();
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    let error =
        json!({"error": {"code": code, "message": message, "errors": [{"reason": reason, "message": message}]}});
    json!({"status": {"code": code, "body": error.to_string()}})
}

fn fault(google: &Google, nth: u64, times: u64, action: &Value) {
    google.fault(&json!({"path": "/index:inspect$", "nth": nth, "times": times, "action": action}));
}

#[test]
fn a_failure_of_one_url_is_its_row_and_a_failure_of_all_is_an_error() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let urls = [HOME, &page("imprint"), &page("search"), &page("x")];
    for (name, action, words) in [
        ("400", status(400, "invalidArgument", "Invalid URL"), "Invalid URL"),
        ("403", status(403, "forbidden", "You do not own this site"), "You do not own"),
        ("404", status(404, "notFound", "Nothing here"), "404"),
    ] {
        google.calm();
        fault(&google, 2, 1, &action);
        let answer = inspect(&mut gsc, &urls).ok();
        let errors: Vec<String> =
            answer.column("error").iter().filter_map(|error| error.as_str().map(str::to_owned)).collect();
        assert!(errors.len() == 1 && errors[0].contains(words), "{name}: {errors:?}");
        assert_eq!(answer.model()["extra"]["failed"], 1, "{name}");
    }
    for (name, action, code, words, most) in [
        ("400", status(400, "invalidArgument", "Invalid URL"), -32017, "Invalid URL", 4),
        ("401", status(401, "authError", "Invalid Credentials"), -32012, "401", 8),
        ("403", status(403, "forbidden", "You do not own this site"), -32014, "Users and permissions", 4),
        (
            "403, scope",
            status(403, "insufficientPermissions", "Request had insufficient authentication scopes."),
            -32012,
            "scopes",
            4,
        ),
        (
            "403, off",
            status(403, "accessNotConfigured", "API has not been used in project 1"),
            -32018,
            "Enable the API",
            4,
        ),
        ("403, quota", status(403, "quotaExceeded", "Quota exceeded"), -32018, "quota", 3),
        ("no JSON", json!({"status": {"code": 200, "body": "{\"inspectionResult\": {"}}), -32018, "can't be read", 3),
        ("another answer", json!({"status": {"code": 200, "body": "{}"}}), -32018, "can't be read", 3),
        (
            "a page",
            json!({"status": {"code": 404, "headers": {"Content-Type": "text/html"}, "body": "<title>Error 404</title>"}}),
            -32018,
            "web page",
            4,
        ),
    ] {
        google.calm();
        fault(&google, 1, 99, &action);
        let message = inspect(&mut gsc, &urls).refused(code);
        assert!(message.contains(words), "{name}: {message}");
        assert!(inspections(&google) <= most, "{name}: {} attempts", inspections(&google));
    }
    // A connection that breaks once is tried again.
    google.calm();
    fault(&google, 1, 1, &json!("reset"));
    assert_eq!(inspect(&mut gsc, &[HOME]).ok().model()["extra"]["inspected"], 1);
    gsc.end_well();
}

#[test]
fn a_restricted_user_is_told_so() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let asked = json!({"resource_id": RESTRICTED, "urls": [RESTRICTED]});
    let message = gsc.call("inspect_urls", &asked, &json!({})).refused(-32014);
    assert!(message.contains("You do not own this site") && message.contains("reports-full@"), "{message}");
    for (urls, fix) in [(json!([]), "at least 1"), (json!(vec!["https://x.example/"; 501]), "at most 500")] {
        let message = gsc.call("inspect_urls", &json!({"urls": urls}), &json!({})).refused(-32017);
        assert!(message.contains(fix), "{message}");
    }
    gsc.end_well();
}

/// Complaint 60: the counter `indexed` is always zero, so nobody is told "0 of 57".
#[test]
fn sitemaps_have_typed_counters_and_no_dead_one() {
    let google = Google::start();
    let mut gsc = Gsc::start(&google);
    let answer = gsc.call("list_sitemaps", &json!({}), &json!({})).ok();
    let rows = answer.rows();
    assert_eq!(rows.len(), 4);
    let index = &rows[0];
    assert_eq!(
        (&index["is_index"], &index["submitted_pages"], &index["errors"]),
        (&json!(true), &json!(57), &json!(0))
    );
    assert_eq!(index["contents"], json!([{"type": "web", "submitted": 57}, {"type": "image", "submitted": 120}]));
    assert!(!answer.text.contains("indexed"), "nothing speaks of it");
    let pending = rows.iter().find(|row| row["is_pending"] == true).unwrap();
    for column in ["last_downloaded", "type", "submitted_pages", "contents"] {
        assert_eq!(pending[column], Value::Null, "{column}");
    }
    for (column, kind) in
        [("errors", "integer"), ("last_submitted", "datetime"), ("contents", "json"), ("is_index", "boolean")]
    {
        assert_eq!(answer.header(column)["type"], kind, "{column}");
    }
    let children = gsc.call("list_sitemaps", &json!({"sitemap_index": index["path"]}), &json!({})).ok();
    assert_eq!(children.rows().len(), 2);
    let none = gsc
        .call("list_sitemaps", &json!({"sitemap_index": "https://elsewhere.example/sitemap_index.xml"}), &json!({}))
        .ok();
    assert!(none.rows().is_empty() && none.warnings()[0].contains("not one"), "{:?}", none.warnings());
    let empty = gsc.call("list_sitemaps", &json!({"resource_id": RESTRICTED}), &json!({})).ok();
    assert!(empty.rows().is_empty() && empty.warnings()[0].contains("No sitemap"), "{:?}", empty.warnings());
    let message = gsc.call("list_sitemaps", &json!({"sitemap_index": "sitemap.xml"}), &json!({})).refused(-32017);
    assert!(message.contains("whole address"), "{message}");
    for (action, code) in [
        (status(403, "forbidden", "User does not have sufficient permission for site"), -32014),
        (status(403, "quotaExceeded", "Quota exceeded"), -32018),
        (json!({"status": {"code": 200, "body": "[]"}}), -32018),
        (json!({"status": {"code": 200, "body": "{\"sitemap\": [{\"errors\": \"many\"}]}"}}), -32018),
    ] {
        google.calm();
        google.fault(&json!({"path": "/sitemaps$", "times": 9, "action": action}));
        gsc.call("list_sitemaps", &json!({}), &json!({})).refused(code);
    }
    gsc.end_well();
}
