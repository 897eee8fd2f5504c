//! Calls (11.3): what a connector is sent, what is stored, and what is said about it.

use serde_json::{Value, json};

use super::scripted::{Scripted, capability, extraction, information, tool};
use super::{Home, KEY, names};

/// H-3.1-02, H-3.2-01, H-3.3-01, H-3.3-03, H-4.1-01, H-11.3-01, H-11.3-06, H-11.3-12, H-11.4-01, H-12.2-01, H-14.3-18, H-14.3-19,
/// B-16.5-01, B-16.5-02: what the host announces, and what goes with each call.
#[test]
fn a_call_has_its_credentials_limits_and_ids() {
    let home = Home::with_toy("");
    let mut shop = home.shop();
    shop["field_limit"] = json!(30);
    shop["config"] = json!({"zone": "north"});
    home.write_sources(&json!({"defaults": {"row_limit": 4, "cost_limit_usd": 1}, "sources": [shop]}));
    home.call("rows", &json!({"n": 10})).ends_with(0);
    let received = home.received("toy");
    let methods: Vec<_> = received.iter().filter_map(|message| message["method"].as_str()).collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/list", "tools/call"]);
    assert_eq!(
        received[0]["params"]["capabilities"]["experimental"]["acp"],
        json!({"version": "1.0", "stores_system_data": true, "autocontext_delivery": "on_first_call", "multi_table": true,
            "host_tables": true})
    );
    let mut meta = home.last_meta("toy");
    let (session, conversation) = (meta["session_id"].take(), meta["conversation_id"].take());
    let form = crate::rules::regex(r"^acp-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:shop$");
    assert!(form.is_match(session.as_str().expect("a session")) && session == conversation, "{session}");
    assert!(meta["call_id"].take().is_string());
    assert_eq!(
        meta,
        json!({
            "credentials": {"type": "api_key", "api_key": KEY}, "config": {"zone": "north"}, "default_resource_id": "acc_1",
            "row_limit": 4, "field_limit": 30, "cost_limit_usd": 1.0, "session_id": null, "conversation_id": null, "call_id": null,
        })
    );
}

/// H-7.5-01, H-7.5-06: without autocontext, the server is told that it was delivered.
#[test]
fn autocontext_can_be_turned_off() {
    let home = Home::with_toy("");
    let mut shop = home.shop();
    let attached = |ran: super::Ran| ran.ends_with(0).json()["info"]["autocontext_attached"].clone();
    home.write_sources(&json!({"sources": [shop]}));
    assert_eq!(attached(home.call("rows", &json!({"n": 1}))), true);
    shop["autocontext"] = json!("off");
    home.write_sources(&json!({"sources": [shop]}));
    assert_eq!(attached(home.call("rows", &json!({"n": 1}))), false);
    assert_eq!(home.last_meta("toy")["autocontext_delivered"], true);
}

/// H-11.3-03, H-11.3-04, H-11.3-05, H-8.5-01, H-8.5-02, H-8.9-02, B-16.1-02, B-16.5-04, B-16.6-01, B-16.6-02, B-16.6-03, B-16.7-01: an
/// extraction is a dataset, its dates are days, and the model is told where it is.
#[test]
fn an_extraction_is_stored_whole_and_told() {
    let home = Home::with_shop("");
    let ran = home.call("rows", &json!({"n": 90, "start_date": "2026-07-01", "end_date": "2026-09-28"})).ends_with(0);
    let (id, csv, meta) = home.only_dataset();
    assert!(crate::rules::regex(r"^shop_rows_\d{8}_\d{6}$").is_match(&id), "{id}");
    let note =
        format!("The full extraction was saved as dataset \"{id}\" in acp-data/{id}.csv. You saw 25 of 90 rows.");
    assert!(ran.notes().starts_with(&note), "{}", ran.notes());
    assert_eq!(csv.lines().count(), 91);
    assert!(csv.starts_with("i,name\r\n0,r0\r\n1,r1\r\n"));
    assert_eq!(
        (&meta["id"], &meta["origin"], &meta["source"], &meta["acp"], &meta["tool"], &meta["resource_id"]),
        (&json!(id), &json!("acp"), &json!("shop"), &json!("toy"), &json!("rows"), &json!("acc_1"))
    );
    assert_eq!((&meta["row_count"], &meta["dates"]), (&json!(90), &json!(["2026-07-01", "2026-09-28"])));
    assert_eq!(meta["arguments"], json!({"n": 90, "start_date": "2026-07-01", "end_date": "2026-09-28"}));

    // Large: by file, which is gone afterwards.
    let large = Home::with_shop("");
    large.call("rows", &json!({"n": 200_000})).ends_with(0);
    let (_, csv, meta) = large.only_dataset();
    assert_eq!((csv.lines().count(), &meta["row_count"]), (200_001, &json!(200_000)));
    assert_eq!(names(&large.path().join("home/.cache/acp/tmp")), Vec::<String>::new());
}

/// H-8.2.1-01, H-8.7-06, H-11.3-07, H-11.3-08, H-11.3-09: several tables are several datasets, empty ones are mentioned, and so is what
/// was not extracted.
#[test]
fn tables_are_datasets_and_the_model_learns_which() {
    let home = Home::with_shop("--variant cat");
    let sizes = json!({"ga4_hits": 14, "cookies": 3, "datalayer": 0, "errors": 0}).to_string();
    let ran = home.call("shoot", &json!({"sizes": sizes, "tables": ["ga4_hits", "datalayer"]})).ends_with(0);
    let notes = ran.notes();
    let listed = home.json(&["datasets"]);
    let datasets = listed["datasets"].as_array().expect("a list");
    assert_eq!(datasets.len(), 1, "{listed}");
    let id = datasets[0]["id"].as_str().expect("an id");
    assert!(id.starts_with("shop_shoot_ga4_hits_"), "{id}");
    for part in [
        format!("- ga4_hits: dataset \"{id}\" in acp-data/{id}.csv. You saw 10 of 14 rows and 3 of 31 fields."),
        "No data: datalayer, errors.".to_owned(),
        "Not extracted: cookies (3 rows). Ask for them with tables.".to_owned(),
        "reduced view".to_owned(),
    ] {
        assert!(notes.contains(&part), "{part:?} is missing: {notes}");
    }
    assert!(datasets[0]["title"].as_str().is_some_and(|title| title.contains("Shop") && title.contains("GA4 hits")));
}

/// H-8.8-01, H-8.8-02, H-8.8-03, H-8.8-04, H-8.8.1-01, H-8.8.1-05, H-11.6-04, H-14.3-10, B-16.1-06, B-16.5-05: a server gets a table of
/// the host by its id, whole and typed, and nothing from outside the folder.
#[test]
fn a_server_reads_datasets_by_their_ids() {
    let home = Home::with_shop("");
    let rows = json!([{"day": "2026-09-01", "n": 12_345_678_901_234_567_890_u64, "ok": true, "x": 1.5, "j": {"a": [1]}, "s": "é,\n\"q\""},
        {"day": null, "n": null, "ok": null, "x": null, "j": null, "s": null}]);
    home.call("raw", &json!({"rows_json": rows.to_string()})).ends_with(0);
    let (id, csv, first) = home.only_dataset();
    for reference in [id.clone(), format!("{id}.csv"), format!("acp-data/{id}.csv")] {
        home.call("copy_table", &json!({"table_ref": reference})).ends_with(0);
    }
    let copies = home.json(&["datasets", "copy_table"]);
    for copy in copies["datasets"].as_array().expect("a list") {
        assert_eq!(copy["columns"], first["headers"]);
        assert_eq!(std::fs::read_to_string(copy["file"].as_str().expect("a file")).expect("a CSV"), csv);
    }
    assert_eq!(copies["datasets"].as_array().map(Vec::len), Some(3));
    std::fs::write(home.project().join("outside.csv"), "a\r\n1\r\n").expect("a file");
    #[cfg(unix)]
    std::os::unix::fs::symlink(home.project().join("outside.csv"), home.data().join("link.csv")).expect("a link");
    for reference in ["nope", "../outside", "acp-data/../outside.csv", "/etc/passwd", "..", "link", ".hidden"] {
        let ran = home.call("copy_table", &json!({"table_ref": reference})).ends_with(2);
        assert_eq!(ran.json()["answer"]["error"]["name"], "ACP_TABLE_NOT_FOUND", "{reference}: {ran:?}");
    }

    // More than is handed over inline.
    let large = format!("n,text\n{}", format!("1,{}\n", "x".repeat(10_000)).repeat(600));
    std::fs::write(home.data().join("large.csv"), large).expect("a file");
    let ran = home.call("copy_table", &json!({"table_ref": "large"})).ends_with(0);
    assert_eq!(ran.json()["datasets"][0]["rows"], 600);
    assert_eq!(names(&home.path().join("home/.cache/acp/tmp")), Vec::<String>::new());
}

/// H-8.9-01, H-8.9-02, H-11.3-13, H-11.5-02: markers are replaced by days before the call, and the two arguments stay with the host.
#[test]
fn date_markers_are_replaced_before_the_call() {
    let home = Home::with_shop("--variant paid");
    let query = "SELECT a WHERE d BETWEEN '{{start_date}}' AND '{{end_date}}'";
    home.call("run_sql", &json!({"query": query, "start_date": "20260701", "end_date": "2026-09-28"})).ends_with(0);
    let sent = home.params("toy", "tools/call").pop().expect("a call")["arguments"].clone();
    assert_eq!(sent, json!({"query": "SELECT a WHERE d BETWEEN '2026-07-01' AND '2026-09-28'"}));
    let (_, _, meta) = home.only_dataset();
    assert_eq!(meta["arguments"]["query"], sent["query"]);
    assert_eq!(meta["template"], json!({"query": query, "start_date": "2026-07-01", "end_date": "2026-09-28"}));

    let calls = home.params("toy", "tools/call").len();
    for (arguments, says) in [
        (json!({"query": query}), "start_date is missing"),
        (json!({"query": query, "start_date": "today", "end_date": "yesterday"}), "after end_date"),
        (json!({"query": query, "start_date": "CANNED", "end_date": "today"}), "start_date is not a date"),
        (json!({"query": query, "start_date": 1, "end_date": "today"}), "start_date must be a text"),
    ] {
        home.run(&["call", "shop", "run_sql", &arguments.to_string()]).ends_with(2).says(&[says]);
    }
    assert_eq!(home.params("toy", "tools/call").len(), calls, "what can't be asked was asked");
    let ran = home.call("run_sql", &json!({"query": "SELECT a", "start_date": "today"})).ends_with(0);
    assert!(ran.notes().contains("were not used"), "{}", ran.notes());
    assert_eq!(home.params("toy", "tools/call").pop().expect("a call")["arguments"], json!({"query": "SELECT a"}));
}

/// H-8.10-01, H-8.10-02, H-8.10-03, H-8.10-04, H-11.3-14, H-14.3-12, B-16.5-06: a picture is a content block, a document goes into the
/// project, and nothing else is taken for either.
#[test]
fn pictures_and_documents_are_taken_care_of() {
    let home = Home::with_shop("");
    let ran = home.call("snap", &json!({})).ends_with(0).json();
    assert_eq!((&ran["content"][0]["type"], &ran["content"][0]["mimeType"]), (&json!("image"), &json!("image/png")));
    assert!(ran["answer"]["screenshot_path"].is_string());

    let fake = Scripted::new();
    let home = &fake.home;
    let file = home.path().join("Q3 report.pdf");
    std::fs::write(&file, "%PDF-1.7 CANNED").expect("a file");
    fake.answers(&information(
        &json!({"a": 1, "pdf_path": file, "download_path": file, "download_as": "markdown", "z": 2}),
    ));
    for name in ["Q3 report", "Q3 report_3"] {
        let ran = home.call("rows", &json!({})).ends_with(0);
        let answer = ran.json()["answer"].clone();
        let export = format!("acp-data/files/{name}");
        assert!(
            answer["export_path"].as_str().is_some_and(|path| path.starts_with("acp-data/files/Q3 report")),
            "{export} {answer}"
        );
        assert_eq!(
            (&answer["bytes"], &answer["saved"], &answer["a"], &answer["z"]),
            (&json!(15), &json!(true), &json!(1), &json!(2))
        );
        assert!(answer.get("pdf_path").is_none() && answer.get("download_path").is_none(), "{answer}");
        assert!(
            ran.notes().contains("The file was saved") && ran.notes().contains("saved as Markdown"),
            "{}",
            ran.notes()
        );
        assert!(!ran.out.contains("CANNED"), "the document reached the model");
    }
    assert_eq!(names(&home.data().join("files")).len(), 4);

    let text = home.path().join("secret.png");
    std::fs::write(&text, "no picture CANARY").expect("a file");
    let large = home.path().join("large.png");
    std::fs::write(&large, [&[0x89, b'P', b'N', b'G'][..], &vec![0; 4 * 1024 * 1024]].concat()).expect("a file");
    for (path, says) in [
        (json!(text), "neither PNG nor JPEG"),
        (json!(large), "larger than"),
        (json!("/nowhere/x.png"), "can't be read"),
        (json!("/dev/zero"), "no absolute path of a file"),
        (json!("relative.png"), "no absolute path"),
    ] {
        fake.answers(&information(&json!({"screenshot_path": path})));
        let ran = home.call("rows", &json!({})).ends_with(0);
        assert!(ran.notes().contains(says), "{says}: {}", ran.notes());
        assert_eq!(ran.json()["content"], json!([]));
    }
}

/// H-9.2-01, H-11.6-01, H-11.6-02, H-11.6-03, H-14.3-21, B-16.5-07: errors arrive as they are, with the note that sends to the person,
/// and no limit is raised.
#[test]
fn errors_arrive_and_limits_stay() {
    let home = Home::with_toy("--variant paid");
    let mut shop = home.shop();
    shop["cost_limit_usd"] = json!(0.5);
    home.write_sources(&json!({"sources": [shop]}));
    let ran = home.call("run_sql", &json!({"query": "SELECT a /* bytes=1000000000000 */"})).ends_with(5);
    let error = ran.json()["answer"]["error"].clone();
    assert_eq!((&error["code"], &error["name"]), (&json!(-32010), &json!("ACP_COST_LIMIT_EXCEEDED")));
    assert!(error["data"]["estimate_usd"].as_f64().is_some_and(|estimate| estimate > 0.5));
    assert!(ran.notes().contains("cost_limit_usd of source \"shop\" in sources.json"), "{}", ran.notes());
    let called = home.params("toy", "tools/call");
    assert!(called.len() == 1 && called[0]["_meta"]["acp"]["cost_limit_usd"] == 0.5, "{called:?}");
    for (kind, code, note) in
        [("401", 3, true), ("404", 5, false), ("500", 5, false), ("panic", 5, false), ("echo", 5, false)]
    {
        let ran = home.call("boom", &json!({"kind": kind})).ends_with(code);
        assert_eq!(ran.notes().contains("sources.json"), note, "{kind}: {ran:?}");
    }
    home.call("nope", &json!({})).ends_with(2);
    home.run(&["call", "other", "rows"]).ends_with(2).says(&["There is no source \"other\"", "shop"]);
    home.run(&["call", "shop", "rows", "{"]).ends_with(2).says(&["JSON object"]);
    assert_eq!(home.stored(), Vec::<String>::new());
}

/// H-4.3-01, H-4.3-02, H-4.3-03, H-12.3-01: a server without ACP, or of another major version, is a plain MCP server; a later minor
/// version is none.
#[test]
fn a_server_without_acp_is_a_plain_one() {
    let fake = Scripted::new();
    fake.home.write_sources(&json!({"sources": [{"id": "shop", "acp": "fake", "credentials": {"key": "KEY-CANARY"}}]}));
    let blocks = json!([{"type": "text", "text": "plain"}, {"type": "text", "text": "more"}]);
    fake.answers(&json!({"content": blocks, "structuredContent": {"a": 1}}));
    let mut other = capability();
    other["version"] = json!("2.0");
    other["defaults"] = json!("another form");
    for announced in [Value::Null, other] {
        fake.announces(&announced);
        let ran = fake.home.call("rows", &json!({"a": 1})).ends_with(0).json();
        assert_eq!((&ran["answer"], &ran["content"]), (&json!("plain"), &json!([blocks[1]])));
        let call = fake.home.params("fake", "tools/call").pop().expect("a call");
        assert_eq!(call, json!({"name": "rows", "arguments": {"a": 1}}));
    }
    let mut later = capability();
    later["version"] = json!("1.7");
    later["later"] = json!({"a": 1});
    fake.announces(&later);
    fake.answers(&extraction(&json!([{"name": "n", "type": "integer"}]), &json!([{"n": 1}]), 1, &json!({})));
    fake.home.call("rows", &json!({})).ends_with(0);
    assert!(fake.home.last_meta("fake")["session_id"].is_string());
    assert_eq!(fake.home.stored().len(), 2);
}

/// H-4.2-02: where no tool is named, the first extraction tool is meant.
#[test]
fn the_first_extraction_tool_is_the_default() {
    let home = Home::with_shop("--variant paid");
    home.run(&["call", "shop"]).ends_with(2);
    let called = home.params("toy", "tools/call").pop().expect("a call")["name"].clone();
    let listed = home.params("toy", "initialize");
    assert_eq!((called, listed.len()), (json!("rows"), 1));
}

/// H-3.1-01, H-5.4-01, H-11.3-02, H-11.5-03, H-14.3-17, H-14.3-20, B-16.1-04, B-16.8-01: what a server repeats of what it was given
/// does not get out, wherever it puts it.
#[test]
fn secrets_do_not_come_back() {
    let fake = Scripted::new();
    let home = &fake.home;
    let mut with_key = capability();
    with_key["credentials_schema"] = json!({"type": "object", "required": ["key"],
        "properties": {"key": {"type": "string", "title": "Key", "contentMediaType": "application/json", "writeOnly": true}}});
    fake.announces(&with_key);
    let material = format!("CANARY\n{}", "x".repeat(80));
    let key = json!({"private_key": material, "client_email": "a@example.com"}).to_string();
    home.write_sources(&json!({"sources": [{"id": "shop", "acp": "fake", "credentials": {"key": key}}]}));
    let said = json!({"you_sent": key, "key": material, "mail": "a@example.com"});
    fake.answers(&information(&said));
    let ran = home.call("rows", &json!({})).ends_with(0);
    assert!(ran.out.contains("[redacted]") && ran.out.contains("a@example.com"), "{ran:?}");
    // Last words of a server that dies are in the error.
    let script = format!("echo '{key}' >&2\nread line\necho '{key}' >&2\nexit 1\n");
    Home::install(&home.acps(), "dying", "1.0.0", &script);
    home.write_sources(&json!({"sources": [{"id": "shop", "acp": "fake", "credentials": {"key": key}}]}));
    fake.crashes();
    home.call("rows", &json!({})).ends_with(4);
}

/// Servers that break their word: a clear error each, and nothing that looks like a dataset.
#[test]
fn hostile_servers_leave_an_error_and_nothing_else() {
    let fake = Scripted::new();
    let home = &fake.home;
    let headers = json!([{"name": "n", "type": "integer"}]);
    let whole = extraction(&headers, &json!([{"n": 1}, {"n": 2}]), 2, &json!({}));
    let mut no_meta = whole.clone();
    no_meta.as_object_mut().expect("an object").shift_remove("_meta");
    let mut no_text = whole.clone();
    no_text["content"] = json!([]);
    let mut elsewhere = whole.clone();
    elsewhere["_meta"]["acp"]["system_data"] =
        json!({"format": "file", "row_count": 2, "headers": headers, "table_uri": "https://example.com/t.json"});
    let mut missing = elsewhere.clone();
    missing["_meta"]["acp"]["system_data"]["table_uri"] = json!("file:///nowhere/t.json");
    let mut half = whole.clone();
    half["_meta"]["acp"]["system_data"] = json!({"format": "tables", "row_count": 3, "headers": [], "tables": [
        {"name": "one", "format": "inline", "row_count": 1, "headers": headers, "table": [{"n": 1}]},
        {"name": "two", "format": "inline", "row_count": 2, "headers": headers, "table": [{"n": 1}]}]});
    for (answer, code, says) in [
        (extraction(&headers, &json!([{"n": 1}]), 2, &json!({})), 5, "1 rows, 2 were announced"),
        (extraction(&headers, &json!([{"n": 1, "m": 2}]), 1, &json!({})), 5, "no column"),
        (extraction(&headers, &json!({"n": 1}), 1, &json!({})), 5, "array"),
        (extraction(&headers, &Value::Null, 1, &json!({})), 5, "neither rows nor an address"),
        (no_meta, 4, "no _meta.acp"),
        (no_text, 4, "no text in content[0]"),
        (elsewhere, 5, "only file is read"),
        (missing, 5, "can't be read"),
        (half, 5, "1 rows, 2 were announced"),
        (json!("no object"), 4, "can't be read"),
    ] {
        fake.answers(&answer);
        home.run(&["call", "shop", "rows"]).ends_with(code).says(&[says]);
        assert_eq!(home.stored(), Vec::<String>::new(), "{answer}");
    }
    fake.answers(&whole);
    for (before, code) in [
        // Answers to nobody, requests for what isn't there, and noise that is still JSON-RPC.
        (
            "{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"nope\"}\n\n",
            0,
        ),
        ("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":5}\n", 0),
        ("this is no JSON\n", 4),
        ("[]\n", 4),
    ] {
        fake.writes_before(before);
        home.run(&["call", "shop", "rows"]).ends_with(code);
        assert_eq!(home.stored().len(), if code == 0 { 2 } else { 0 }, "{before}");
        let _ = std::fs::remove_dir_all(home.data());
    }
    fake.writes_before("");
    fake.crashes();
    home.run(&["call", "shop", "rows"]).ends_with(4).says(&["ended before it answered"]);
    Home::install(&home.acps(), "fake", "1.0.0", "yes | tr -d '\\n'\n");
    home.run(&["call", "shop", "rows"]).ends_with(4).says(&["a line of more than"]);
    Home::install(&home.acps(), "fake", "1.0.0", "echo last words >&2\n");
    home.run(&["call", "shop", "rows"]).ends_with(4).says(&["last words"]);
    assert_eq!(home.stored(), Vec::<String>::new());
    fake.has_tools(&json!([tool("rows", &json!({}))]));
}
