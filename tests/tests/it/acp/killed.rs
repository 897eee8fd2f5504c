//! Ends at any moment: of the program, of its call, of the connector.

use std::time::Duration;

use serde_json::json;

use super::{Home, Ran, kill, names, wait_for};

/// A call that Ctrl-C ends is cancelled at the server, and leaves nothing.
#[test]
fn ctrl_c_cancels_the_call() {
    let home = Home::with_shop("");
    let child = home.acp(&["call", "shop", "slow", r#"{"seconds": 50}"#]).spawn().expect("acp");
    wait_for("the call", || !home.params("toy", "tools/call").is_empty());
    kill(child.id(), "-INT");
    Ran::wait(child, "call".to_owned()).ends_with(130).says(&["cancelled"]);
    wait_for("the cancellation", || !home.params("toy", "notifications/cancelled").is_empty());
    assert_eq!(home.stored(), Vec::<String>::new());
}

/// Killed while it writes, it leaves nothing that is listed, and the next start removes what is left.
#[test]
fn what_a_killed_program_leaves_is_no_dataset_and_goes() {
    let home = Home::with_shop("");
    {
        use std::os::unix::fs::PermissionsExt;
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(home.sources_file(), private).expect("permissions");
    }
    let mut interrupted = 0;
    for _ in 0..20 {
        let child = home.acp(&["call", "shop", "rows", r#"{"n": 200000}"#]).spawn().expect("acp");
        let id = child.id();
        let writing = || names(&home.data()).iter().any(|name| name.ends_with(".part"));
        wait_for("a write", || writing() || home.data().read_dir().is_ok_and(|mut files| files.next().is_some()));
        std::thread::sleep(Duration::from_millis(interrupted * 3));
        kill(id, "-KILL");
        Ran::wait(child, "call".to_owned());
        let files = home.stored();
        if files.iter().any(|name| name.ends_with(".part")) {
            interrupted += 1;
        }
        let listed = home.json(&["datasets"]);
        for dataset in listed["datasets"].as_array().expect("a list") {
            assert_eq!(dataset["rows"], 200_000, "{listed}");
        }
        assert_eq!(listed["not_usable"], json!([]), "{files:?}");
        if interrupted >= 3 {
            break;
        }
    }
    assert!(interrupted > 0, "no write was interrupted");
    home.call("peek", &json!({})).ends_with(0);
    assert!(home.stored().iter().all(|name| !name.ends_with(".part")), "{:?}", home.stored());
    // The connectors of the killed programs end too, but take their time.
    wait_for("the end of all temporary files", || {
        home.call("peek", &json!({})).ends_with(0);
        names(&home.path().join("home/.cache/acp/tmp")).is_empty()
    });
    home.run(&["doctor"]).ends_with(0);
}
