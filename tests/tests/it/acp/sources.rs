//! Setting up sources (5.5, 11.2): the forms are the connector's, secrets are kept apart, and nothing is saved that was not
//! tried.

use serde_json::json;

use super::scripted::{Scripted, capability, information};
use super::{CANARY, Home, KEY, Ran, names};

/// H-5.5-01, H-5.5-02, H-5.5.1-03, H-5.5.3-01, H-5.5.3-02, H-5.5.4-01, H-10.1-01, H-11.2-01, H-14.3-04, H-14.3-06, H-5.1-01: what is
/// given is typed, tried and saved; secrets in a file of their own, settings in clear.
#[test]
fn a_source_is_added_by_flags() {
    let home = Home::with_toy("");
    let rules = home.path().join("rules.json");
    std::fs::write(&rules, "\u{feff} [] \n").expect("a file");
    let from_file = format!("table_rules={}", rules.display());
    home.run(&[
        "source",
        "add",
        "shop",
        "--acp",
        "toy",
        "--label",
        "The shop",
        "--secrets",
        "file",
        "--set",
        &format!("api_key={KEY}"),
        "--set",
        "price=2.5",
        "--set",
        "zone=north",
        "--set-file",
        &from_file,
        "--resource",
        "acc_7",
        "--row-limit",
        "3",
        "--cost-limit-usd",
        "0.5",
    ])
    .ends_with(0)
    .says(&["Saved shop", "plain files"]);
    let sources = home.read_sources();
    assert_eq!(
        sources["sources"][0],
        json!({
            "id": "shop", "acp": "toy", "label": "The shop", "default_resource_id": "acc_7",
            "credentials": {"type": "api_key", "api_key": {"file": "sources.secrets/shop.api_key"}},
            "config": {"region": "eu", "zone": "north", "price": 2.5, "access_mode": "onlyRead", "table_rules": {"file": rules}},
            "row_limit": 3, "cost_limit_usd": 0.5,
        })
    );
    assert!(!sources.to_string().contains(CANARY));
    let kept = home.path().join("root/sources.secrets");
    assert_eq!(std::fs::read_to_string(kept.join("shop.api_key")).expect("the secret"), KEY);
    #[cfg(unix)]
    for (path, mode) in [(kept.join("shop.api_key"), 0o600), (kept, 0o700), (home.sources_file(), 0o600)] {
        assert_eq!(super::mode(&path), mode, "{}", path.display());
    }

    let tried = home.last_meta("toy");
    assert_eq!(tried["credentials"], json!({"type": "api_key", "api_key": KEY}));
    home.call("rows", &json!({"n": 5})).ends_with(0);
    let meta = home.last_meta("toy");
    assert_eq!(meta["credentials"], tried["credentials"]);
    assert_eq!(
        meta["config"],
        json!({"region": "eu", "zone": "north", "price": 2.5, "access_mode": "onlyRead", "table_rules": "[]"})
    );
    assert_eq!((&meta["row_limit"], &meta["cost_limit_usd"]), (&json!(3), &json!(0.5)));
    assert_eq!(meta["default_resource_id"], "acc_7");

    let listed = home.json(&["source", "list"]);
    assert_eq!(
        (&listed["sources"][0]["has_credentials"], &listed["sources"][0]["row_limit"]),
        (&json!(true), &json!(3))
    );
    home.run(&["source", "remove", "shop"]).ends_with(0);
    assert_eq!(home.read_sources(), json!({"sources": []}));
    assert_eq!(names(&home.path().join("root/sources.secrets")), Vec::<String>::new());
    assert!(rules.exists(), "a file of the person's is left alone");
}

/// H-5.5.1-02, H-5.5.1-06, H-11.2-02, H-14.3-09: what doesn't fit is refused with its reason before anything is saved, and the
/// reason holds no value.
#[test]
fn what_does_not_fit_is_refused_and_nothing_is_saved() {
    let home = Home::with_toy("");
    let key = format!("api_key={KEY}");
    for (flags, code, says) in [
        (vec!["--set", &key, "--set", "price=-1", "--resource", "acc_1"], 2, "price must be at least 0"),
        (vec!["--set", &key, "--set", "price=CANARY", "--resource", "acc_1"], 2, "price must be a number"),
        (
            vec!["--set", &key, "--set", "table_rules={CANARY", "--resource", "acc_1"],
            2,
            "table_rules must be valid JSON",
        ),
        (vec!["--set", &key, "--set", "region=CANARY", "--resource", "acc_1"], 2, "region must be one of"),
        (vec!["--set", &key, "--set", "nope=CANARY"], 2, "there is no field nope"),
        (vec!["--set", &key, "--variant", "OAuth"], 2, "OAuth has no field api_key"),
        (vec!["--variant", "API key", "--resource", "acc_1"], 2, "api_key is required"),
        (vec!["--set", "zone=x"], 2, "API key, OAuth"),
        (vec!["--set-env", "api_key=NOT_SET_ANYWHERE"], 2, "NOT_SET_ANYWHERE, which is not set"),
        (vec!["--set-file", "api_key=missing"], 2, "missing"),
        // A source whose tools work on resources needs one.
        (vec!["--set", &key], 2, "pass --resource"),
        (vec!["--set", "api_key=WRONG-CANARY", "--resource", "acc_1"], 3, "rejects these credentials"),
    ] {
        let mut arguments = vec!["source", "add", "shop", "--acp", "toy", "--secrets", "file"];
        arguments.extend(flags);
        home.run(&arguments).ends_with(code).says(&[says]);
        assert_eq!(names(&home.path().join("root")), ["acps"], "{arguments:?}");
    }
    home.run(&["source", "add", "Shop", "--acp", "toy"]).ends_with(2).says(&["lowercase"]);
    home.run(&["source", "add", "shop", "--acp", "nope"]).ends_with(2).says(&["not installed"]);
    let called = home.params("toy", "tools/call");
    assert!(called.iter().all(|call| call["name"] == "autocontext"), "{called:?}");
}

/// H-5.5-03, H-5.5.0-01, H-5.5.1-01, H-5.5.1-04, H-5.5.1-05, H-5.5.1-07, H-5.5.4-03, H-14.3-07, H-14.3-15: a person is asked what the schemas ask,
/// in their order, and an empty answer to a secret keeps it.
#[test]
fn a_person_is_asked_and_may_keep_what_is_saved() {
    let home = Home::with_toy("");
    // Variant, key, region, zone, price twice, mode, rules, rows, cost, account, blocks.
    let answers = format!("1\n{KEY}\nus\n\nmany\n3\n\n\n10\n\nacc_2  Account 2\nalpha, beta\n");
    let ran = home.answer(&["source", "add", "shop", "--secrets", "file"], &answers).ends_with(0);
    let order = [
        "1  API key",
        "2  OAuth",
        "API key*",
        "Region (empty: eu)",
        "Zone",
        "Price",
        "price must be a number",
        "Access mode",
        "Rules for tables",
        "Rows that the model sees [25]",
        "in USD [0]",
        "Toy account",
        "alpha ",
    ];
    let mut rest = ran.err.as_str();
    for part in order {
        let place = rest.find(part).unwrap_or_else(|| panic!("{part:?} is missing or out of order: {}", ran.err));
        rest = &rest[place + part.len()..];
    }
    let written = home.read_sources()["sources"][0].clone();
    assert_eq!(written["credentials"], json!({"type": "api_key", "api_key": {"file": "sources.secrets/shop.api_key"}}));
    assert_eq!(written["config"], json!({"region": "us", "price": 3, "access_mode": "onlyRead"}));
    assert_eq!((&written["row_limit"], &written["default_resource_id"]), (&json!(10), &json!("acc_2")));
    assert_eq!(written["autocontext_blocks"], json!(["alpha", "beta"]));
    let asked: Vec<_> = home.params("toy", "tools/call").iter().map(|call| call["name"].clone()).collect();
    assert_eq!(asked, ["autocontext", "autocontext_data"]);

    // Another price, everything else as it was.
    let ran = home.answer(&["source", "edit", "shop"], "\n\n\n4\n\n\n\n\n\n").ends_with(0);
    assert!(ran.err.contains("Saved; leave empty to keep it") && ran.err.contains("empty keeps us"), "{}", ran.err);
    let edited = home.read_sources()["sources"][0].clone();
    assert_eq!(edited["config"]["price"], 4);
    assert_eq!((&edited["credentials"], &edited["row_limit"]), (&written["credentials"], &written["row_limit"]));
    home.call("rows", &json!({"n": 1})).ends_with(0);
    let meta = home.last_meta("toy");
    assert_eq!(
        (&meta["credentials"]["api_key"], &meta["autocontext_blocks"]),
        (&json!(KEY), &json!(["alpha", "beta"]))
    );

    // Another kind takes the place of the former, whose secret goes.
    home.run(&[
        "source",
        "edit",
        "shop",
        "--variant",
        "OAuth",
        "--set",
        "access_token=TOKEN-CANARY",
        "--secrets",
        "file",
    ])
    .ends_with(0);
    let edited = home.read_sources()["sources"][0].clone();
    assert_eq!(
        edited["credentials"],
        json!({"type": "oauth", "access_token": {"file": "sources.secrets/shop.access_token"}})
    );
    assert_eq!(names(&home.path().join("root/sources.secrets")), ["shop.access_token"]);
}

/// H-4.2-01, H-6.1-01: a source without resources needs none.
#[test]
fn a_source_without_resources_needs_none() {
    let home = Home::with_toy("--variant nores");
    home.run(&["source", "add", "shop", "--set", &format!("api_key={KEY}"), "--secrets", "file"]).ends_with(0);
    assert!(home.read_sources()["sources"][0].get("default_resource_id").is_none());
}

/// H-8.7-01, H-8.7-02, H-8.7-03, H-8.7-04, H-11.3-11, H-14.3-16: the tables that a person chooses go with each call, with those that
/// always do.
#[test]
fn tables_are_chosen_from_the_catalogue() {
    let home = Home::with_toy("--variant cat");
    let key = format!("api_key={KEY}");
    home.run(&[
        "source",
        "add",
        "shop",
        "--set",
        &key,
        "--secrets",
        "file",
        "--resource",
        "acc_1",
        "--table",
        "cookies",
    ])
    .ends_with(0);
    home.call("peek", &json!({})).ends_with(0);
    assert_eq!(home.last_meta("toy")["tables"], json!(["errors", "cookies"]));
    let answers = format!("1\n{KEY}\n\n\n\n\n\n\n\n-\n\n\n");
    let ran = home.answer(&["source", "add", "other", "--secrets", "file"], &answers).ends_with(0);
    assert!(ran.err.contains("Page") && ran.err.contains("errors               always"), "{}", ran.err);
    assert!(ran.err.contains("Nothing but what is always extracted"), "{}", ran.err);
    assert_eq!(home.read_sources()["sources"][1]["tables"], json!([]));
}

/// H-5.5.4-02, H-5.5.4-04, H-5.5.5-01, H-5.5.5-02, H-5.5.5-05, H-5.5.5-06, H-11.1-04, H-11.3-15, H-14.3-05,
/// H-14.3-11: a login that this host doesn't offer is not painted, and what
/// stands for one never reaches the server.
#[test]
fn logins_are_not_offered_and_references_to_a_portal_are_not_sent() {
    let fake = Scripted::new();
    let mut with_login = capability();
    with_login["credentials_schema"] = json!({"oneOf": [
        {"type": "object", "title": "Account", "required": ["type", "email"],
            "x-acp-login": {"provider": "analytika", "scopes": ["s"]}, "an_unknown_keyword": 1,
            "properties": {"type": {"const": "portal_oauth"}, "email": {"type": "string", "title": "E-mail", "x-acp-filled": true}}},
        {"type": "object", "title": "Key", "required": ["type", "key"], "x-acp-login": {"provider": "other", "scopes": []},
            "properties": {"type": {"const": "key"}, "key": {"type": "string", "title": "Secret", "writeOnly": true,
                "a_later_keyword": true}}},
    ]});
    fake.announces(&with_login);
    fake.answers(&information(&json!({"resources": []})));
    let home = &fake.home;
    let portal = json!({"type": "portal_oauth", "email": "a@example.com", "scopes": "s"});
    home.write_sources(&json!({"sources": [{"id": "shop", "acp": "fake", "credentials": portal}]}));
    home.run(&["call", "shop", "rows"]).ends_with(3).says(&["login", "acp source edit shop"]);
    assert!(home.params("fake", "tools/call").is_empty());
    let ran = home.answer(&["source", "add", "two", "--secrets", "file"], "2\nKEY-CANARY\n\n\n").ends_with(0);
    assert!(ran.err.contains("Secret*") && !ran.err.contains("E-mail"), "{}", ran.err);
}

/// B-16.3-01, B-16.3-03, H-12.2-01: references are resolved for each call, keys of others stay in their place, and mistakes are told
/// with the place and without the value.
#[test]
fn sources_json_is_the_persons_file() {
    let home = Home::with_toy("");
    std::fs::write(home.path().join("root/key.txt"), format!("  {KEY}\n")).expect("a file");
    home.write_sources(&json!({
        "comment": "mine", "defaults": {"row_limit": 2, "colour": "red"},
        "sources": [
            {"note": 1, "id": "shop", "acp": "toy", "default_resource_id": 1, "credentials": {"type": "api_key", "api_key": {"file": "key.txt"}},
                "config": {"zone": {"projectPath": "a/b.txt"}, "price": {"env": "PRICE"}}},
            {"id": "env", "acp": "toy", "default_resource_id": {"env": "ACCOUNT"}, "row_limit": {"env": "ROWS"},
                "credentials": {"type": "api_key", "api_key": {"env": "SHOP_KEY"}}},
        ],
    }));
    let mut command = home.acp(&["--json", "call", "shop", "peek", "{}"]);
    Ran::of(command.env("PRICE", "1.5"), "").ends_with(0);
    let meta = home.last_meta("toy");
    assert_eq!((&meta["credentials"]["api_key"], &meta["row_limit"]), (&json!(KEY), &json!(2)));
    let project = home.project().canonicalize().expect("the project");
    assert_eq!(meta["config"], json!({"zone": project.join("a/b.txt"), "price": 1.5}));
    assert_eq!(meta["default_resource_id"], "1");
    let mut command = home.acp(&["--json", "call", "env", "peek", "{}"]);
    Ran::of(command.env("SHOP_KEY", KEY).env("ACCOUNT", "acc_9").env("ROWS", "7"), "").ends_with(0);
    let meta = home.last_meta("toy");
    assert_eq!((&meta["default_resource_id"], &meta["row_limit"]), (&json!("acc_9"), &json!(7)));
    home.run(&["call", "env", "peek"]).ends_with(3).says(&["source env", "credentials.api_key", "SHOP_KEY", "not set"]);

    let listed = home.json(&["source", "list"]);
    assert_eq!(listed["ignored"], json!(["comment", "defaults.colour", "sources[0].note"]));
    home.run(&["source", "remove", "env"]).ends_with(0);
    let written = home.read_sources();
    assert_eq!(written["comment"], "mine");
    assert_eq!(written["sources"].as_array().map(Vec::len), Some(1));
    assert_eq!(written["sources"][0]["note"], 1);

    for (text, says) in [
        ("{", "line 1"),
        ("[]", "JSON object"),
        (r#"{"sources": [{"id": "CANARY", "acp": "toy"}]}"#, "sources[0].id must have"),
        (r#"{"sources": [{"id": "a"}]}"#, "sources[0].acp is missing"),
        (r#"{"sources": [{"id": "a", "acp": "toy"}, {"id": "a", "acp": "toy"}]}"#, "sources[1].id"),
        (
            r#"{"sources": [{"id": "a", "acp": "toy", "row_limit": 5001}]}"#,
            "sources[0].row_limit must be a whole number from 0 to 5000",
        ),
        (
            r#"{"sources": [{"id": "a", "acp": "toy", "credentials": "KEY-CANARY"}]}"#,
            "sources[0].credentials must be an object",
        ),
        (r#"{"sources": [{"id": "a", "acp": "toy", "cost_limit_usd": "CANARY"}]}"#, "sources[0].cost_limit_usd"),
        (r#"{"defaults": {"field_limit": 0}}"#, "defaults.field_limit"),
        (r#"{"sources": [{"id": "a", "acp": "toy", "autocontext": "CANARY"}]}"#, "on_first_call or off"),
    ] {
        std::fs::write(home.sources_file(), text).expect("sources.json");
        home.run(&["source", "list"]).ends_with(2).says(&["sources.json", says]);
    }
    for (path, says) in [("../x", "out of the project"), ("/etc/passwd", "out of the project")] {
        let config = json!({"zone": {"projectPath": path}});
        home.write_sources(&json!({"sources": [{"id": "shop", "acp": "toy", "config": config}]}));
        home.run(&["call", "shop", "peek"]).ends_with(3).says(&["config.zone", says]);
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("/", home.project().join("link")).expect("a link");
        let config = json!({"zone": {"projectPath": "link/etc"}});
        home.write_sources(&json!({"sources": [{"id": "shop", "acp": "toy", "config": config}]}));
        home.run(&["call", "shop", "peek"]).ends_with(3).says(&["out of the project"]);
    }
}
