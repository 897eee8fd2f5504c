//! The folder `acp-data` (16.6), and the queries over it.

use serde_json::json;

use super::{KEYS, Place, shop, source};
use crate::server::binary_of;

/// B-16.6-01, B-16.6-02, B-16.6-03, B-16.3-02: each extraction is a CSV with every row, and a description beside it.
#[test]
fn extractions_are_stored_whole() {
    let mut source = source("Shop".to_lowercase().as_str(), KEYS[0]);
    source["row_limit"] = json!(1);
    let mut bridge = Place::new(&json!({"sources": [source]})).start("stored");
    let rows = json!([
        {"n": 12345678901234567890_u64, "t": "a \"b\", c\nñ", "j": {"k": [1, "x"]}, "e": null, "d": "2026-01-31", "b": true},
        {"n": 2, "t": "", "j": [], "e": null, "d": "2026-02-01", "b": false},
    ]);
    let seen = bridge.call("shop__raw", json!({"rows_json": rows.to_string()})).ok();
    assert_eq!(seen.model()["returned_rows"], 1);
    let id = seen.dataset();
    assert!(crate::rules::regex(r"^shop_raw_\d{8}_\d{6}$").is_match(&id), "{id}");
    assert_eq!(
        bridge.csv(&id),
        "n,t,j,e,d,b\r\n12345678901234567890,\"a \"\"b\"\", c\nñ\",\"{\"\"k\"\":[1,\"\"x\"\"]}\",,2026-01-31,true\r\n2,,[],,2026-02-01,false\r\n"
    );
    let meta = bridge.meta(&id);
    for (field, value) in [
        ("id", json!(id)),
        ("origin", json!("acp")),
        ("source", json!("shop")),
        ("acp", json!("toy")),
        ("tool", json!("raw")),
        ("row_count", json!(2)),
    ] {
        assert_eq!(meta[field], value, "{meta}");
    }
    assert_eq!(meta["headers"][4], json!({"name": "d", "type": "date"}));
    assert!(meta["created_at"].as_str().unwrap().ends_with('Z'));
    let again = bridge.call("shop__raw", json!({"rows_json": "[{\"a\":1}]"})).ok().dataset();
    assert_ne!(again, id, "a further extraction replaces none");
    let empty = bridge.call("shop__raw", json!({"rows_json": "[]"})).ok();
    assert!(empty.notes().starts_with("No data"), "{}", empty.line);
    assert_eq!(bridge.files().len(), 4);
    // What the file holds comes back typed, a value with too many digits as text.
    assert_eq!(
        bridge.query(&format!("SELECT b, d, j FROM {id} WHERE b")),
        json!([{"b": true, "d": "2026-01-31", "j": {"k": [1, "x"]}}])
    );
    assert_eq!(bridge.query(&format!("SELECT n FROM {id} WHERE NOT b")), json!([{"n": "2"}]));
    assert_eq!(bridge.query(&format!("SELECT MAX(length(n)) AS digits FROM {id}")), json!([{"digits": 20}]));
    bridge.end();
}

/// B-16.5-04: several tables are several datasets, empty ones are mentioned.
#[test]
fn several_tables_are_several_datasets() {
    let place = Place::new(&json!({}));
    place.install("toy", "Toy", &binary_of("acp-toy"), &["--variant", "multi"]);
    place.write_sources(&json!({"sources": [source("shop", KEYS[0])]}).to_string());
    let mut bridge = place.start("several tables");
    let seen = bridge.call("shop__shoot", json!({"sizes": r#"{"ga4_hits":14,"datalayer":0,"cookies":9}"#})).ok();
    let metas: Vec<String> = bridge.files().into_iter().filter(|name| name.ends_with(".meta.json")).collect();
    assert_eq!(metas.len(), 2, "{metas:?}");
    assert!(seen.notes().contains("No data: datalayer."), "{}", seen.notes());
    for name in &metas {
        let id = name.trim_end_matches(".meta.json");
        assert!(seen.notes().contains(&format!("dataset \"{id}\" in acp-data/{id}.csv")), "{id}: {}", seen.notes());
        let rows = bridge.meta(id)["row_count"].clone();
        assert_eq!(bridge.query(&format!("SELECT COUNT(*) AS n FROM {id}")), json!([{"n": rows}]));
    }
    bridge.end();
}

/// B-16.4-02, B-16.6-04: files that a person puts there are datasets, typed by what is in them.
#[test]
fn files_of_a_person_are_datasets() {
    let mut bridge = shop("foreign");
    bridge.put(
        "Códigos 2026.csv",
        "\u{feff}zip;day;units;ratio;open;at;x;x\r\n08001;2026-01-31;3;0.5;true;2026-01-31T10:00:00Z;a;b\r\n"
            .as_bytes(),
    );
    bridge.put("broken.csv", b"a,b\n1,2\n3\n");
    bridge.put("notes.txt", b"not a table");
    let listed = bridge.call("acp_datasets", json!({})).ok().model();
    let [dataset] = listed["datasets"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert_eq!((&dataset["id"], &dataset["file"]), (&json!("c_digos_2026"), &json!("acp-data/Códigos 2026.csv")));
    assert_eq!((&dataset["origin"], &dataset["rows"]), (&json!("csv"), &json!(1)));
    let types: Vec<String> = dataset["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| format!("{}:{}", column["name"], column["type"]))
        .collect();
    assert_eq!(
        types.join(" ").replace('"', ""),
        "zip:string day:date units:integer ratio:number open:boolean at:datetime x:string x_8:string"
    );
    assert!(dataset["description"].as_str().unwrap().contains("x_8"), "{dataset}");
    assert_eq!(listed["unusable"][0]["file"], "acp-data/broken.csv");
    assert!(listed["unusable"][0]["problem"].as_str().unwrap().contains("line 3"), "{listed}");
    assert_eq!(
        bridge.query("SELECT zip, units + 1 AS more, open, x_8 FROM c_digos_2026 WHERE day > '2026'"),
        json!([{"zip": "08001", "more": 4, "open": true, "x_8": "b"}])
    );
    let copied = bridge.call("shop__copy_table", json!({"table_ref": "c_digos_2026"})).ok();
    assert_eq!(copied.model()["rows"][0]["units"], 3);
    let before = bridge.data().join("Códigos 2026.csv");
    assert!(std::fs::read(before).unwrap().starts_with("\u{feff}zip;".as_bytes()), "files are never changed");
    // A file that changes is read anew.
    bridge.put("broken.csv", b"a,b\n1,2\n3,4\n");
    assert_eq!(bridge.query("SELECT SUM(a) AS s FROM broken"), json!([{"s": 4}]));
    // Two files of one id: the first counts.
    bridge.put("BROKEN.csv", b"a\n1\n");
    let listed = bridge.call("acp_datasets", json!({"filter": "broken"})).ok().model();
    assert_eq!(listed["datasets"].as_array().unwrap().len(), 1, "{listed}");
    assert!(listed["unusable"].to_string().contains("rename"), "{listed}");
    bridge.end();
}

/// B-16.4-03, B-16.6-02, B-16.6-05: results are datasets of their own; save_as names and replaces them, and nothing else.
#[test]
fn results_are_stored_and_nothing_is_changed() {
    let mut bridge = shop("results");
    let id = bridge.call("shop__rows", json!({"n": 120})).ok().dataset();
    let before = bridge.csv(&id);
    let seen = bridge.call("acp_query", json!({"sql": format!("SELECT * FROM {id} WHERE i % 2 = 0")})).ok();
    assert_eq!((&seen.model()["returned_rows"], &seen.model()["total_rows"]), (&json!(50), &json!(60)));
    let result = seen.dataset();
    assert_eq!(bridge.csv(&result).lines().count(), 61);
    assert_eq!(bridge.meta(&result)["origin"], "query");
    assert!(bridge.meta(&result)["sql"].as_str().unwrap().contains("i % 2"));
    for limit in [5, 3] {
        let sql = format!("SELECT i FROM {result} LIMIT {limit}");
        let saved = bridge.call("acp_query", json!({"sql": sql, "save_as": "few"})).ok();
        assert_eq!(saved.dataset(), "few");
    }
    assert_eq!(bridge.query("SELECT COUNT(*) AS n FROM few"), json!([{"n": 3}]));
    let message = bridge.call("acp_query", json!({"sql": "SELECT 1", "save_as": id})).error("ACP_INVALID_ARGUMENTS");
    assert!(message.contains("Choose another"), "{message}");
    for sql in [
        format!("DELETE FROM {id}"),
        format!("WITH x AS (SELECT 1) UPDATE {id} SET i = 0"),
        "ATTACH 'x' AS y".to_owned(),
        "PRAGMA user_version = 3".to_owned(),
        format!("CREATE TABLE y AS SELECT * FROM {id}"),
    ] {
        bridge.call("acp_query", json!({"sql": sql})).error("ACP_READ_ONLY_VIOLATION");
    }
    let message = bridge
        .call("acp_query", json!({"sql": format!("SELECT * FROM {}", &id[..id.len() - 1])}))
        .error("ACP_TABLE_NOT_FOUND");
    assert!(message.contains(&id), "{message}");
    assert_eq!(bridge.csv(&id), before);
    bridge.end();
}

/// What a model reads of a person's file has no characters that can't be seen.
#[test]
fn hidden_characters_are_shown() {
    let mut bridge = shop("hidden");
    bridge.put("odd.csv", "a,b\u{202e}\nx\u{e0041}y,\u{7}\n".as_bytes());
    for reply in [
        bridge.call("acp_datasets", json!({})),
        bridge.call("acp_query", json!({"sql": "SELECT * FROM odd"})),
        bridge.call("acp_query", json!({"sql": "SELECT z\u{202e} FROM odd"})),
    ] {
        let hidden = |c: char| matches!(c, '\u{202e}' | '\u{e0041}' | '\u{7}');
        assert!(!reply.texts.iter().any(|text| text.contains(hidden)), "{}", reply.line);
        assert!(!reply.line.contains("\\u202e") && !reply.line.contains("\\u0007"), "{}", reply.line);
    }
    bridge.end();
}
