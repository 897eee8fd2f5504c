//! `acp doctor` and `acp config`.

use serde_json::json;

use super::Home;
use crate::server::binary_of;

/// H-10.3-01: what is wrong is named, with what to do; what is right is too.
#[test]
fn the_doctor_names_what_is_wrong_and_what_to_do() {
    let home = Home::new();
    home.run(&["doctor"]).ends_with(5).says(&["acp install ZIP", "acp source add"]);
    home.install_toy("toy", "");
    std::fs::write(home.path().join("root/key"), super::KEY).expect("a file");
    let source = |key: serde_json::Value| {
        json!({"sources": [{"id": "shop", "acp": "toy", "default_resource_id": "acc_1",
            "credentials": {"type": "api_key", "api_key": key}}]})
    };
    home.write_sources(&source(json!({"file": "key"})));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let with = |mode| std::fs::set_permissions(home.path().join("root/key"), std::fs::Permissions::from_mode(mode));
        with(0o644).expect("permissions");
        home.run(&["doctor"]).ends_with(5).says(&["others can read it", "chmod 600"]);
        with(0o600).expect("permissions");
    }
    home.run(&["doctor"]).ends_with(0).says(&["toy 1.0.0 starts", "source shop lists its resources"]);
    Home::install(&home.acps(), "broken", "1.0.0", "exit 1\n");
    home.write_sources(&source(json!("WRONG-CANARY")));
    let report = home.run(&["--json", "doctor"]).ends_with(5).json();
    let wrong: Vec<_> =
        report["checks"].as_array().expect("checks").iter().filter(|check| check["ok"] == false).collect();
    assert!(wrong.iter().all(|check| check["problem"].is_string() && check["fix"].is_string()), "{report}");
    let subjects: Vec<_> = wrong.iter().filter_map(|check| check["subject"].as_str()).collect();
    assert!(
        subjects.iter().any(|subject| subject.starts_with("broken")) && subjects.contains(&"source shop"),
        "{report}"
    );
}

/// The bridge in the settings of each client, by absolute paths.
#[test]
fn settings_of_clients_name_this_program() {
    let home = Home::new();
    for (client, key) in [("claude", "mcpServers"), ("cursor", "mcpServers"), ("vscode", "servers")] {
        let snippet = home.run(&["config", "--client", client]).ends_with(0).json();
        let server = &snippet[key]["acp"];
        let program = std::path::Path::new(server["command"].as_str().expect("a command"));
        assert_eq!(program.canonicalize().expect("the program"), binary_of("acp").canonicalize().expect("the program"));
        let args = server["args"].as_array().expect("arguments");
        assert_eq!(args[0], "bridge");
        let project = args.iter().position(|word| word == "--project").map(|place| args[place + 1].clone());
        assert_eq!(project, Some(json!(home.project())));
        assert_eq!(server.get("type").is_some(), client == "vscode", "{snippet}");
        assert_eq!(snippet.as_object().map(serde_json::Map::len), Some(1));
    }
    home.run(&["config"]).ends_with(2);
}
