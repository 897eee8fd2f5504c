//! One server for each connector, whatever the number of sources (3.3, 16.4).
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_host::host::{Host, HostError, HostOptions, Outcome};
use acp_host::launch::Environment;
use acp_protocol::JsonObject;
use serde_json::json;

use crate::zips::manifest;

/// Writes down its id, then answers calls with the credentials that they came with: only a test server may.
const SERVER: &str = r#"echo $$ >> 'FOLDER/started'
while read -r line; do
  id=${line#*\"id\":}; id=${id%%,*}
  key=${line#*\"key\":\"}; key=${key%%\"*}
  case $line in
  *'"initialize"'*)
    printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"toy","version":"VERSION"},"capabilities":{"experimental":{"acp":{"version":"1.0","defaults":{"row_limit":25,"cost_limit_usd":0},"credentials_schema":{"type":"object","properties":{"key":{"type":"string"}}},"resource_id":{"description":"d","format":"none","examples":[]},"autocontext":{"cache_ttl_s":1,"delivery":["suggest"]},"cost":{"currency":"USD","model":"free","description":"d"},"extraction_tools":[]}}}}}\n' "$id" ;;
  *'"tools/list"'*)
    printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"who","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
  *'"name":"die"'*) exit 1 ;;
  *'"tools/call"'*)
    printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}],"_meta":{"acp":{"version":"1.0","kind":"info","system_info":{"acp":"toy","acp_version":"1.0","tool":"who","kind":"info","resource_id":null,"arguments":{},"row_limit":25,"cost_limit_usd":0,"cost_estimate_usd":0,"cost_actual_usd":0,"duration_ms":1,"fetched_at":"2026-10-12T08:16:30.000Z","autocontext_attached":false,"messages":[],"warnings":[]}}}}}\n' "$id" "$key" ;;
  esac
done
"#;

struct Place {
    folder: tempfile::TempDir,
    host: Host,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("project")).unwrap();
        let source = |id: &str| json!({"id": id, "acp": "toy", "credentials": {"key": format!("of {id}")}});
        let sources = json!({"sources": [source("one"), source("two")]});
        std::fs::write(path("sources.json"), sources.to_string()).unwrap();
        install(folder.path(), "1.0.0");
        let host = Host::new(HostOptions {
            system: path("acps"),
            project_packages: None,
            sources: path("sources.json"),
            project: path("project"),
            state: path("state"),
            name: "test".to_owned(),
            environment: Environment::Essential,
            variables: Vec::new(),
            query_hint: None,
        });
        Self { host: host.unwrap(), folder }
    }

    /// Process ids of the servers that were started.
    fn started(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("started")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn call(&self, source: &str, tool: &str) -> Result<Outcome, HostError> {
        self.host.call(source, tool, JsonObject::new(), None).await
    }
}

fn install(folder: &Path, version: &str) -> PathBuf {
    let package = folder.join("acps/toy");
    std::fs::create_dir_all(&package).unwrap();
    let script = SERVER.replace("FOLDER", &folder.display().to_string()).replace("VERSION", version);
    std::fs::write(package.join("start.sh"), script).unwrap();
    std::fs::write(package.join("acp.json"), manifest("toy", version)).unwrap();
    package
}

/// H-3.3-02, H-3.3-03: sources share a process, and each call has the credentials of its source alone.
#[tokio::test]
async fn sources_share_a_process_and_never_their_credentials() {
    let place = Arc::new(Place::new());
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..40 {
        let place = Arc::clone(&place);
        calls.spawn(async move {
            let source = if number % 2 == 0 { "one" } else { "two" };
            (source, place.call(source, "who").await.unwrap().model_text)
        });
    }
    for (source, answer) in calls.join_all().await {
        // It is no declared secret, so it comes back as it is.
        assert_eq!(answer, format!("of {source}"));
    }
    assert_eq!(place.started().len(), 1);
}

#[tokio::test]
async fn a_server_that_ended_is_started_again_and_a_new_version_takes_its_place() {
    let place = Place::new();
    let version = async || place.host.server("toy").await.unwrap().package().manifest.version.clone();
    place.call("one", "who").await.unwrap();
    assert!(matches!(place.call("one", "die").await, Err(HostError::Server { .. })));
    place.call("two", "who").await.unwrap();
    assert_eq!(place.started().len(), 2);
    assert_eq!(version().await, "1.0.0");

    let package = install(place.folder.path(), "2.0.0");
    assert_eq!(version().await, "2.0.0");
    assert_eq!(place.started().len(), 3);
    let alive = |id: &String| Path::new("/proc").join(id).exists();
    if cfg!(target_os = "linux") {
        assert_eq!(place.started().iter().filter(|id| alive(id)).count(), 1, "a former server still runs");
    }
    place.host.stop("toy").await;
    std::fs::remove_dir_all(package).unwrap();
    assert!(matches!(place.call("one", "who").await, Err(HostError::NotInstalled { .. })));
    place.host.close().await;
    if cfg!(target_os = "linux") {
        assert!(!place.started().iter().any(alive), "a server outlives its host");
    }
}
