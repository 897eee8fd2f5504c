//! What dies in the middle: a connector, the bridge. No dataset is left that looks whole and is not.

use std::time::Duration;

use serde_json::json;

use super::{Bridge, KEYS, Place, eventually, shop, source};

/// A connector that was killed is started anew by the next call; the one that runs is told.
#[cfg(target_os = "linux")]
#[test]
fn a_dead_connector_is_started_again() {
    let place = Place::new(&json!({"sources": [source("shop", KEYS[0])]}));
    let mark = format!("--host-patience={}9", std::process::id());
    place.install("toy", "Toy", &crate::server::binary_of("acp-toy"), &[&mark]);
    let mut bridge = place.start("dead connector");
    bridge.call("shop__peek", json!({})).ok();
    let [pid] = super::processes(&mark)[..] else { panic!("one connector runs") };
    let slow = bridge.begin("shop__slow", &json!({"seconds": 60}));
    bridge.call("shop__peek", json!({})).ok();
    kill(pid);
    let message = bridge.reply(&slow).error("ACP_UPSTREAM_ERROR");
    assert!(message.contains("ended"), "{message}");
    bridge.call("shop__peek", json!({})).ok();
    assert_ne!(super::processes(&mark), [pid]);
    // Killed while nothing runs.
    kill(super::processes(&mark)[0]);
    eventually("the end of the connector", || super::processes(&mark).is_empty());
    // Its output ends a moment later than its process, and the bridge has to hear of it.
    std::thread::sleep(Duration::from_millis(200));
    bridge.call("shop__rows", json!({"n": 1})).ok();
    bridge.end();
}

#[cfg(target_os = "linux")]
fn kill(pid: u32) {
    let killed = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()), "{pid} has ended before");
}

/// The bridge is killed at some moment of an extraction: what is listed afterwards is whole, and nothing else is left.
#[cfg(unix)]
#[test]
fn a_bridge_that_was_killed_leaves_no_half_dataset() {
    let mut bridge = shop("killed bridge");
    bridge.call("shop__rows", json!({"n": 10})).ok();
    for delay in [0, 30, 60, 120, 250] {
        bridge.begin("shop__rows", &json!({"n": 100_000}));
        std::thread::sleep(Duration::from_millis(delay));
        let (root, place) = (bridge.server.process().root.clone(), bridge.place);
        drop(bridge.server);
        let server = place.setup("after a kill").start_in(root);
        bridge = Bridge { server, place };
        let listed = bridge.call("acp_datasets", json!({})).ok().model();
        assert!(listed.get("unusable").is_none(), "{listed}");
        for dataset in listed["datasets"].as_array().unwrap() {
            let id = dataset["id"].as_str().unwrap();
            let rows = bridge
                .call("acp_query", json!({"sql": format!("SELECT COUNT(*) AS n FROM {id}"), "save_as": "counted"}));
            assert_eq!(rows.ok().model()["rows"][0]["n"], dataset["rows"]);
        }
        let files = bridge.files();
        let strangers: Vec<&String> =
            files.iter().filter(|name| !name.ends_with(".csv") && !name.ends_with(".meta.json")).collect();
        assert!(strangers.is_empty(), "{files:?}");
        let metas = files.iter().filter(|name| name.ends_with(".meta.json")).count();
        assert_eq!(files.len(), 2 * metas, "{files:?}");
    }
    bridge.end();
}

/// What the bridge holds does not grow with the rows that pass through it, nor with those that are counted.
#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_rows() {
    let peak = |bridge: &Bridge| {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", bridge.server.pid())).expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
    };
    let mut bridge = shop("memory");
    bridge.call("shop__rows", json!({"n": 1_000})).ok();
    let before = peak(&bridge);
    let many = bridge.call("shop__rows", json!({"n": 200_000})).ok();
    let after = peak(&bridge);
    assert!(after < before + 16, "{before} MiB before, {after} MiB after");
    assert_eq!(bridge.csv(&many.dataset()).lines().count(), 200_001);
    bridge.end();
}

/// The client leaves in the middle: the connectors end with the bridge.
#[cfg(target_os = "linux")]
#[test]
fn connectors_end_with_the_bridge() {
    let place = Place::new(&json!({"sources": [source("shop", KEYS[0])]}));
    let mark = format!("--host-patience={}8", std::process::id());
    place.install("toy", "Toy", &crate::server::binary_of("acp-toy"), &[&mark]);
    let mut bridge = place.start("the end");
    bridge.call("shop__peek", json!({})).ok();
    bridge.begin("shop__slow", &json!({"seconds": 60}));
    bridge.call("shop__peek", json!({})).ok();
    bridge.end();
    eventually("the end of the connector", || super::processes(&mark).is_empty());
}
