//! Datasets: which there are, and asking again for what they hold (8.9).

use serde_json::{Value, json};

use super::scripted::{Scripted, extraction, tool};

fn headers() -> Value {
    json!([{"name": "date", "type": "date"}, {"name": "n", "type": "integer"}])
}

fn rows(rows: &[(&str, i64)]) -> Value {
    rows.iter().map(|(date, n)| json!({"date": date, "n": n})).collect()
}

/// A server with a window of dates that answers with these rows.
fn windowed(first: &[(&str, i64)]) -> Scripted {
    let fake = Scripted::new();
    fake.has_tools(&json!([tool("rows", &json!({
        "start_date": {"type": "string", "x-acp-date": "start"}, "end_date": {"type": "string", "x-acp-date": "end"},
    }))]));
    let arguments = json!({"start_date": "2026-09-01", "end_date": "2026-09-03"});
    fake.answers(&extraction(&headers(), &rows(first), first.len(), &arguments));
    fake.home.call("rows", &arguments).ends_with(0);
    fake
}

fn table(fake: &Scripted) -> String {
    fake.home.only_dataset().1.replace("\r\n", " ")
}

/// H-8.9-03, H-8.9-04, H-14.3-08: some days are asked for again, and the others stay; no rows for a day delete its rows.
#[test]
fn days_are_reloaded() {
    let fake = windowed(&[("2026-09-01", 1), ("2026-09-02", 2), ("2026-09-02", 3), ("2026-09-03", 4)]);
    let (id, _, _) = fake.home.only_dataset();
    let reload = |days: &str| fake.home.run(&["reload", &id, "--days", days]);
    let answers = |found: &[(&str, i64)], start: &str, end: &str| {
        fake.answers(&extraction(
            &headers(),
            &rows(found),
            found.len(),
            &json!({"start_date": start, "end_date": end}),
        ));
    };
    answers(&[("2026-09-02", 20)], "2026-09-02", "2026-09-02");
    reload("2026-09-02").ends_with(0).says(&["has 3 rows"]);
    assert_eq!(table(&fake), "date,n 2026-09-01,1 2026-09-02,20 2026-09-03,4 ");
    let sent = fake.home.params("fake", "tools/call").pop().expect("a call")["arguments"].clone();
    assert_eq!(sent, json!({"start_date": "2026-09-02", "end_date": "2026-09-02"}));

    answers(&[], "2026-09-01", "2026-09-01");
    reload("2026-09-01").ends_with(0);
    assert_eq!(table(&fake), "date,n 2026-09-02,20 2026-09-03,4 ");

    answers(&[("2026-09-04", 5)], "2026-09-04", "2026-09-04");
    reload("2026-09-04..2026-09-04").ends_with(0);
    let (_, csv, meta) = fake.home.only_dataset();
    assert_eq!(csv.lines().last(), Some("2026-09-04,5"));
    assert_eq!(meta["arguments"], json!({"start_date": "2026-09-01", "end_date": "2026-09-04"}));
    assert_eq!(meta["row_count"], 3);

    // A gap, rows of other days, and days in the wrong order are refused; the dataset stays.
    let before = table(&fake);
    reload("2026-10-04").ends_with(2).says(&["a gap"]);
    reload("2026-09-03..2026-09-02").ends_with(2).says(&["after end_date"]);
    reload("soon").ends_with(2).says(&["--days is not a date"]);
    reload("2026-09-03").ends_with(5).says(&["rows of other days"]);
    assert_eq!(table(&fake), before);
    fake.answers(&extraction(&headers(), &rows(&[("2026-09-03", 1)]), 7, &json!({})));
    reload("2026-09-03").says(&["7 were announced"]);
    assert_eq!(table(&fake), before);
}

/// H-8.9-02, H-8.9-05: all of it is asked for again under the same id, and other columns make another dataset.
#[test]
fn all_is_reloaded_and_other_columns_make_another_dataset() {
    let fake = windowed(&[("2026-09-01", 1)]);
    let (id, old, _) = fake.home.only_dataset();
    fake.answers(&extraction(&headers(), &rows(&[("2026-09-01", 7), ("2026-09-03", 8)]), 2, &json!({})));
    fake.home.run(&["reload", &id, "--all"]).ends_with(0).says(&["has 2 rows"]);
    assert_eq!(table(&fake), "date,n 2026-09-01,7 2026-09-03,8 ");
    let sent = fake.home.params("fake", "tools/call").pop().expect("a call")["arguments"].clone();
    assert_eq!(sent, json!({"start_date": "2026-09-01", "end_date": "2026-09-03"}));

    let other = json!([{"name": "date", "type": "date"}, {"name": "m", "type": "integer"}]);
    fake.answers(&extraction(&other, &json!([{"date": "2026-09-01", "m": 1}]), 1, &json!({})));
    for how in [&["--all"][..], &["--days", "2026-09-01"]] {
        let mut arguments = vec!["--json", "reload", &id];
        arguments.extend(how);
        let reloaded = fake.home.run(&arguments).ends_with(0).json();
        assert!(reloaded["datasets"][0]["other"].is_string(), "{reloaded}");
    }
    let kept = std::fs::read_to_string(fake.home.data().join(format!("{id}.csv"))).expect("the dataset");
    assert_eq!(kept, "date,n\r\n2026-09-01,7\r\n2026-09-03,8\r\n");
    assert_ne!(kept, old);
    fake.home.run(&["reload", "nope", "--all"]).ends_with(2).says(&["There is no dataset"]);
    fake.home.run(&["reload", &id]).ends_with(2);
}

/// H-8.9-02, H-8.9-03: a query with markers is asked for other days by its markers.
#[test]
fn days_of_a_query_with_markers_are_reloaded() {
    let fake = Scripted::new();
    fake.has_tools(&json!([tool("rows", &json!({"query": {"type": "string", "x-acp-date": "template"}}))]));
    let query = "SELECT * WHERE d BETWEEN '{{start_date}}' AND '{{end_date}}'";
    let answers = |found: &[(&str, i64)], start: &str, end: &str| {
        let sent = query.replace("{{start_date}}", start).replace("{{end_date}}", end);
        fake.answers(&extraction(&headers(), &rows(found), found.len(), &json!({"query": sent})));
        sent
    };
    answers(&[("2026-09-01", 1), ("2026-09-02", 2)], "2026-09-01", "2026-09-02");
    fake.home.call("rows", &json!({"query": query, "start_date": "2026-09-01", "end_date": "2026-09-02"})).ends_with(0);
    let (id, _, _) = fake.home.only_dataset();
    let sent = answers(&[("2026-09-02", 20), ("2026-09-03", 30)], "2026-09-02", "2026-09-03");
    fake.home.run(&["reload", &id, "--days", "2026-09-02..2026-09-03"]).ends_with(0);
    assert_eq!(fake.home.params("fake", "tools/call").pop().expect("a call")["arguments"], json!({"query": sent}));
    assert_eq!(table(&fake), "date,n 2026-09-01,1 2026-09-02,20 2026-09-03,30 ");
    let meta = fake.home.only_dataset().2;
    assert_eq!(meta["template"], json!({"query": query, "start_date": "2026-09-01", "end_date": "2026-09-03"}));
    assert_eq!(
        meta["arguments"],
        json!({"query": query.replace("{{start_date}}", "2026-09-01").replace("{{end_date}}", "2026-09-03")})
    );
}

/// Without a window, or without a day in the rows, there is only all of it.
#[test]
fn without_days_there_is_only_all_of_it() {
    let fake = Scripted::new();
    fake.answers(&extraction(&headers(), &rows(&[("2026-09-01", 1)]), 1, &json!({})));
    fake.home.call("rows", &json!({})).ends_with(0);
    let (id, _, _) = fake.home.only_dataset();
    fake.home.run(&["reload", &id, "--days", "today"]).ends_with(2).says(&["without a window", "only all of it"]);
    fake.home.run(&["reload", &id, "--all"]).ends_with(0);

    let fake = windowed(&[]);
    fake.answers(&extraction(
        &json!([{"name": "n", "type": "integer"}]),
        &json!([{"n": 1}]),
        1,
        &json!({"start_date": "2026-09-01", "end_date": "2026-09-03"}),
    ));
    fake.home.call("rows", &json!({})).ends_with(0);
    let (id, _, _) = fake.home.only_dataset();
    fake.home.run(&["reload", &id, "--days", "2026-09-01"]).ends_with(2).says(&["no column that tells the day"]);
}

/// A meta without its table, or that of another, is no dataset; rows that are not what the meta says are told.
#[test]
fn what_is_not_whole_is_no_dataset() {
    let fake = windowed(&[("2026-09-01", 1), ("2026-09-02", 2)]);
    let (id, csv, meta) = fake.home.only_dataset();
    let data = fake.home.data();
    std::fs::write(data.join("gone.meta.json"), meta.to_string()).expect("a file");
    std::fs::write(data.join("copy.csv"), &csv).expect("a file");
    std::fs::write(data.join("copy.meta.json"), meta.to_string()).expect("a file");
    let listed = fake.home.json(&["datasets"]);
    assert_eq!(listed["datasets"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed["not_usable"].as_array().map(Vec::len), Some(1), "{listed}");
    std::fs::write(data.join(format!("{id}.csv")), "date,n\r\n2026-09-01,1\r\n").expect("a file");
    fake.home.run(&["doctor"]).ends_with(5).says(&[&id, "it has 1 rows, its meta says 2"]);
}
