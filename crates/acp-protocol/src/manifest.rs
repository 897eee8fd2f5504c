//! `acp.json`: who a connector is and how to start it (13.2).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Icons above this many bytes are ignored (13.2 says 256 KB; a reader is generous, see [`ICON_PRODUCED_MAX`]).
pub const ICON_ACCEPTED_MAX: u64 = 262_144;
/// Our own packages keep to the stricter reading of 256 KB.
pub const ICON_PRODUCED_MAX: u64 = 256_000;

/// The content of `acp.json`. Unknown fields are ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PackageManifest {
    /// ACP version the server implements.
    pub acp_version: String,
    /// Stable id, `^[a-z][a-z0-9_-]*$`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Semantic version of the server.
    pub version: String,
    /// Who publishes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// What it does, in one or two sentences.
    pub description: String,
    /// Path of an icon, relative to the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// How to reach the server.
    pub transport: Transport,
    /// How to start it locally over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpArgs>,
}

/// How a server is reached (13.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Transport {
    /// A child process.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments; paths are relative to the folder of `acp.json`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        args: Vec<String>,
        /// Extra environment, never credentials.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        env: Option<std::collections::BTreeMap<String, String>>,
    },
    /// A server that already runs.
    Http {
        /// Its endpoint.
        url: String,
        /// Extra headers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        headers: Option<std::collections::BTreeMap<String, String>>,
    },
}

/// Arguments for a local start over HTTP (13.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HttpArgs {
    /// The arguments.
    pub args: Vec<String>,
}

/// Why an `acp.json` can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError(String);

impl std::fmt::Display for ManifestError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "acp.json: {}", self.0)
    }
}

impl std::error::Error for ManifestError {}

impl PackageManifest {
    /// Reads an `acp.json` as an installing host does: a byte order mark is tolerated, unknown fields are ignored,
    /// `id` and `name` must be valid (13.1.1).
    pub fn read(text: &str) -> Result<Self, ManifestError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // A derived type would take a list for an object, field by field.
        if text.trim_start().starts_with('[') {
            return Err(ManifestError("it must be a JSON object".to_owned()));
        }
        let manifest: Self = serde_json::from_str(text).map_err(|error| ManifestError(error.to_string()))?;
        if !is_package_id(&manifest.id) {
            return Err(ManifestError(format!(
                "id {:?} must start with a lowercase letter and hold lowercase letters, digits, _ and - only",
                manifest.id
            )));
        }
        if manifest.name.trim().is_empty() {
            return Err(ManifestError("name must not be empty".to_owned()));
        }
        Ok(manifest)
    }
}

/// Every rule of 13.2 that a package of ours must keep, as problems in words. Empty: it keeps them all.
pub fn validate(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.starts_with('\u{feff}') {
        problems.push("acp.json starts with a byte order mark".to_owned());
    }
    let manifest = match PackageManifest::read(text) {
        Ok(manifest) => manifest,
        Err(error) => return vec![error.to_string()],
    };
    if manifest.acp_version != crate::PROTOCOL_VERSION {
        problems.push(format!("acp_version must be {:?}", crate::PROTOCOL_VERSION));
    }
    if semver::Version::parse(&manifest.version).is_err() {
        problems.push(format!("version {:?} is not a semantic version", manifest.version));
    }
    if manifest.description.trim().is_empty() {
        problems.push("description must not be empty".to_owned());
    }
    if let Some(icon) = &manifest.icon
        && !is_icon_path(icon)
    {
        problems.push(format!("icon {icon:?} must be a relative path to an svg, png or webp file inside the folder"));
    }
    let known = ["acp_version", "id", "name", "version", "publisher", "description", "icon", "transport", "http"];
    let raw: Value = serde_json::from_str(text).unwrap_or_default();
    for field in raw.as_object().into_iter().flat_map(|fields| fields.keys()) {
        if !known.contains(&field.as_str()) {
            problems.push(format!("{field} does not belong in acp.json: identity, transport and icon only"));
        }
    }
    let secrets = ["token", "secret", "password", "credential", "api_key", "authorization"];
    let env = match &manifest.transport {
        Transport::Stdio { env, .. } => env.iter().flatten().map(|(name, _)| name).collect::<Vec<_>>(),
        Transport::Http { headers, .. } => headers.iter().flatten().map(|(name, _)| name).collect(),
    };
    for name in env {
        let lower = name.to_lowercase();
        if secrets.iter().any(|word| lower.contains(word)) {
            problems.push(format!("transport holds {name}: no credentials belong in acp.json"));
        }
    }
    problems
}

/// Whether an id has the form `^[a-z][a-z0-9_-]*$` (13.2).
pub fn is_package_id(id: &str) -> bool {
    id.starts_with(|first: char| first.is_ascii_lowercase())
        && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'))
}

/// Whether an icon path may be used: relative, no URL, no `..`, extension svg, png or webp (13.2). That the file
/// stays inside the folder when links are followed is for the reader to check.
pub fn is_icon_path(path: &str) -> bool {
    let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let absolute = path.starts_with(['/', '\\']) || path.contains(':');
    !absolute
        && !path.split(['/', '\\']).any(|segment| segment == "..")
        && matches!(extension.as_deref(), Some("svg" | "png" | "webp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"acp_version":"1.0","id":"ga4","name":"Google Analytics 4","version":"0.1.0",
        "description":"Reports.","icon":"icon.svg","transport":{"type":"stdio","command":"sh","args":["start.sh"]},
        "http":{"args":["--http"]}}"#;

    #[test]
    fn a_good_manifest_reads_back_and_has_no_problems() {
        let manifest = PackageManifest::read(&format!("\u{feff}{GOOD}")).unwrap();
        let again = PackageManifest::read(&serde_json::to_string(&manifest).unwrap()).unwrap();
        assert_eq!(manifest, again);
        assert_eq!(validate(GOOD), Vec::<String>::new());
        let remote = r#"{"acp_version":"1.0","id":"a","name":"A","version":"1.0.0","description":"d",
            "transport":{"type":"http","url":"https://example.com/mcp"},"unknown":1}"#;
        assert!(matches!(PackageManifest::read(remote).unwrap().transport, Transport::Http { .. }));
    }

    #[test]
    fn every_broken_rule_is_named() {
        for (from, to, needle) in [
            ("\"ga4\"", "\"GA4\"", "id"),
            ("\"Google Analytics 4\"", "\" \"", "name"),
            ("0.1.0", "one", "semantic"),
            ("\"acp_version\":\"1.0\"", "\"acp_version\":\"2.0\"", "acp_version"),
            ("icon.svg", "../icon.svg", "icon"),
            ("\"Reports.\"", "\"\"", "description"),
            ("\"http\":", "\"tools\":", "tools"),
            ("\"args\":[\"start.sh\"]", "\"env\":{\"API_TOKEN\":\"x\"}", "credentials"),
            ("\"stdio\"", "\"pipe\"", "acp.json"),
            ("{\"acp_version\"", "{{", "acp.json"),
        ] {
            let broken = GOOD.replacen(from, to, 1);
            assert!(validate(&broken).iter().any(|problem| problem.contains(needle)), "{to}: {:?}", validate(&broken));
        }
    }

    #[test]
    fn a_list_is_no_manifest() {
        let list =
            r#"["1.0","ga4","Google Analytics 4","0.1.0","d",null,{"type":"stdio","command":"sh","args":[]},null]"#;
        for text in [list, "[]", " \n[1]"] {
            assert!(PackageManifest::read(text).unwrap_err().to_string().contains("object"), "{text}");
            assert!(!validate(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn icon_paths_stay_inside() {
        for good in ["icon.svg", "art/icon.PNG", "a.webp"] {
            assert!(is_icon_path(good), "{good}");
        }
        for bad in ["/icon.svg", "\\icon.svg", "c:/icon.svg", "https://x/icon.svg", "a/../icon.svg", "icon.gif", "icon"]
        {
            assert!(!is_icon_path(bad), "{bad}");
        }
    }
}
