//! Secrets as types, and who they belong to.

use acp_protocol::JsonObject;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A value that must not be shown. It has no `Display`, its `Debug` is redacted, and reading it takes a word that
/// is easy to search for.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Takes a value into custody.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, for the one place that has to use it.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> std::fmt::Debug for Secret<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

/// Who a call acts for: a hash of the whole credential (7.4, 10.1). Two credentials share cached data only when
/// every one of their values is equal, so a revoked key never rides on a good one's cache. It can be written to
/// disk, since the credential can't be found from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(String);

impl Identity {
    /// The identity of calls without credentials.
    pub fn anonymous() -> Self {
        Self("anonymous".to_owned())
    }

    /// This identity under some settings.
    pub(crate) fn under(&self, settings: &JsonObject) -> Self {
        if settings.is_empty() {
            return self.clone();
        }
        Self(format!("{}-{}", self.0, &hash("acp settings", settings)[..16]))
    }

    /// A short text that is safe in file names and logs.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The `credentials` object of a call, as the host sent it (10.2).
#[derive(Clone, Debug)]
pub struct Credentials {
    values: Secret<JsonObject>,
    identity: Identity,
}

impl Credentials {
    /// Wraps a `credentials` object.
    pub fn new(values: JsonObject) -> Self {
        let identity = Identity(hash("acp credentials", &values));
        Self { values: Secret::new(values), identity }
    }

    /// The values, to be read by the connector's own credential type.
    pub fn values(&self) -> &Secret<JsonObject> {
        &self.values
    }

    /// The hash of all values.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// One text value, for example `api_key`.
    pub fn text(&self, key: &str) -> Option<Secret<&str>> {
        self.values.0.get(key).and_then(Value::as_str).map(Secret::new)
    }
}

/// A hash of an object; `purpose` keeps hashes of different things apart.
fn hash(purpose: &str, values: &JsonObject) -> String {
    let mut hash = Sha256::new();
    hash.update(purpose.as_bytes());
    hash.update(b"\0");
    digest(&Value::Object(values.clone()), &mut hash);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Feeds a value to the hash so that key order does not matter and no two values look alike.
fn digest(value: &Value, hash: &mut Sha256) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            hash.update(b"{");
            hash.update((entries.len() as u64).to_le_bytes());
            for (key, value) in entries {
                digest(&Value::String(key.clone()), hash);
                digest(value, hash);
            }
        }
        Value::Array(items) => {
            hash.update(b"[");
            hash.update((items.len() as u64).to_le_bytes());
            for item in items {
                digest(item, hash);
            }
        }
        other => {
            let text = other.to_string();
            hash.update(b"v");
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn credentials(value: Value) -> Credentials {
        Credentials::new(value.as_object().unwrap().clone())
    }

    #[test]
    fn identity_covers_every_value_but_not_the_order() {
        let one = credentials(json!({"type": "oauth", "access_token": "CANARY", "extra": [1, {"a": 2}]}));
        let same = credentials(json!({"extra": [1, {"a": 2}], "access_token": "CANARY", "type": "oauth"}));
        assert_eq!(one.identity(), same.identity());
        for other in [
            json!({"type": "oauth", "access_token": "CANARY2", "extra": [1, {"a": 2}]}),
            json!({"type": "oauth", "access_token": "CANARY", "extra": [1, {"a": 3}]}),
            json!({"type": "oauth", "access_token": "CANARY"}),
        ] {
            assert_ne!(one.identity(), credentials(other).identity());
        }
    }

    #[test]
    fn nothing_printed_holds_a_secret() {
        let one = credentials(json!({"api_key": "CANARY"}));
        let printed = format!("{one:?} {:?} {:?}", one.values(), one.text("api_key"));
        assert!(!printed.contains("CANARY"), "{printed}");
        assert_eq!(one.text("api_key").map(|key| key.expose().to_string()).as_deref(), Some("CANARY"));
    }
}
