//! Where secrets are kept: in the operating system's keyring, or where there is none in a file for its owner alone.
//!
//! `sources.json` only refers to them, so that the file can be shown and shared.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use acp_protocol::JsonObject;
use serde_json::Value;

use crate::sources::{Reference, write_private};

/// Name of this program in the keyring.
const SERVICE: &str = "acp";
/// End of the name of the folder for secrets without a keyring; it begins as `sources.json` does.
const FOLDER: &str = ".secrets";
/// What stands in the place of a secret in a text.
const REDACTED: &str = "[redacted]";
/// Shorter texts are found in innocent places; no key is that short.
const SECRET_MIN: usize = 6;
/// Texts inside a key file above this length are key material; names and addresses are shorter.
const MATERIAL_MIN: usize = 64;

/// Why the keyring has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretError {
    /// This computer, or this session, has no keyring service.
    NoKeyring(String),
    /// There is no entry of this name.
    Missing(String),
    /// The keyring refused.
    Refused(String),
}

impl std::fmt::Display for SecretError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoKeyring(cause) => write!(formatter, "is in the keyring, and there is no keyring here: {cause}"),
            Self::Missing(name) => {
                write!(
                    formatter,
                    "is in the keyring as {name}, and there is no such entry: run `acp source edit` to enter it"
                )
            }
            Self::Refused(cause) => write!(formatter, "is in the keyring, which refuses it: {cause}"),
        }
    }
}

impl std::error::Error for SecretError {}

/// Where a secret may be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// In the keyring where there is one, else in a file.
    #[default]
    Best,
    /// In the keyring, or not at all.
    Keyring,
    /// In a file.
    File,
}

/// The secret of an entry of the keyring. Blocks.
pub fn read(name: &str) -> Result<String, SecretError> {
    entry(name)?.get_password().map_err(|error| explain(name, &error))
}

/// Whether there is a keyring that answers; the reason why not. Blocks.
pub fn keyring() -> Result<(), SecretError> {
    match read("probe") {
        Ok(_) | Err(SecretError::Missing(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The secrets that are kept for one `sources.json`. Two such files may have sources of the same name, and never share a
/// secret.
#[derive(Clone, Copy, Debug)]
pub struct Vault<'a> {
    file: &'a Path,
}

impl<'a> Vault<'a> {
    /// The secrets of this `sources.json`.
    pub fn of(file: &'a Path) -> Self {
        Self { file }
    }

    /// Where secrets lie that are in no keyring.
    pub fn folder(&self) -> PathBuf {
        self.file.with_file_name(self.folder_name())
    }

    fn folder_name(&self) -> String {
        format!("{}{FOLDER}", self.file.file_stem().unwrap_or_default().to_string_lossy())
    }

    /// Keeps a secret and gives the reference for `sources.json`. Blocks.
    pub fn keep(&self, source: &str, field: &str, secret: &str, keep: Keep) -> io::Result<Reference> {
        let field = plain(field);
        if keep != Keep::File {
            // The keyring is one for all.
            let name = format!("{source}/{field}/{}", uuid::Uuid::new_v4().simple());
            match entry(&name).and_then(|entry| entry.set_password(secret).map_err(|error| explain(&name, &error))) {
                Ok(()) => return Ok(Reference::Keyring(name)),
                Err(error) if keep == Keep::Keyring => return Err(io::Error::other(format!("{field} {error}"))),
                Err(_) => {}
            }
        }
        private_folder(&self.folder())?;
        let name = format!("{source}.{field}");
        write_private(&self.folder().join(&name), secret.as_bytes())?;
        Ok(Reference::File(format!("{}/{name}", self.folder_name())))
    }

    /// Removes a secret that [`keep`](Self::keep) kept; others, such as a file of the person, are left alone. Blocks.
    pub fn forget(&self, source: &str, field: &str, reference: &Reference) -> io::Result<()> {
        let field = plain(field);
        match reference {
            Reference::Keyring(name) if name.starts_with(&format!("{source}/{field}/")) => {
                match entry(name).and_then(|entry| entry.delete_credential().map_err(|error| explain(name, &error))) {
                    Ok(()) | Err(SecretError::Missing(_)) => Ok(()),
                    Err(error) => Err(io::Error::other(format!("{field} {error}"))),
                }
            }
            Reference::File(path) if *path == format!("{}/{source}.{field}", self.folder_name()) => {
                match std::fs::remove_file(self.folder().join(format!("{source}.{field}"))) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// The name of a field without what could lead elsewhere: it comes from a server.
fn plain(field: &str) -> String {
    let plain = |byte: char| if byte.is_ascii_alphanumeric() || matches!(byte, '_' | '-') { byte } else { '_' };
    field.chars().map(plain).collect()
}

/// A folder for its owner alone.
fn private_folder(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Whether others than its owner may read a file or a folder; `false` where the system has no such bits.
pub fn open_to_others(path: &Path) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        Ok(std::fs::metadata(path)?.permissions().mode() & 0o077 != 0)
    }
    #[cfg(not(unix))]
    {
        std::fs::metadata(path).map(|_| false)
    }
}

fn entry(name: &str) -> Result<keyring::Entry, SecretError> {
    keyring::Entry::new(SERVICE, name).map_err(|error| explain(name, &error))
}

/// The cause in words; the crate's own texts can hold the secret.
fn explain(name: &str, error: &keyring::Error) -> SecretError {
    match error {
        keyring::Error::NoEntry => SecretError::Missing(name.to_owned()),
        keyring::Error::NoStorageAccess(_) | keyring::Error::PlatformFailure(_) => {
            SecretError::NoKeyring("its service doesn't answer".to_owned())
        }
        keyring::Error::BadEncoding(_) => SecretError::Refused("the entry is not text".to_owned()),
        keyring::Error::TooLong(..) => SecretError::Refused("the secret is too long for it".to_owned()),
        keyring::Error::Ambiguous(_) => SecretError::Refused("there are several entries of that name".to_owned()),
        _ => SecretError::NoKeyring("it can't be used".to_owned()),
    }
}

/// Replaces the secrets of a call in texts that others see: what a server says of itself, or writes as its last words, may
/// repeat what it was given.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a secret inside another doesn't break it up.
    secrets: Vec<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Redactor").field("secrets", &self.secrets.len()).finish()
    }
}

impl Redactor {
    /// The secrets among these credentials: the fields that `is_secret` names, and the key material inside a JSON key.
    pub fn of(credentials: &JsonObject, is_secret: impl Fn(&str) -> bool) -> Self {
        let mut redactor = Self::default();
        credentials.iter().filter(|(name, _)| is_secret(name)).for_each(|(_, value)| redactor.add(value));
        redactor.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        redactor.secrets.dedup();
        redactor
    }

    fn add(&mut self, value: &Value) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let Ok(Value::Object(key)) = serde_json::from_str::<Value>(&text) {
            let material = key.values().filter_map(Value::as_str).filter(|text| text.len() >= MATERIAL_MIN);
            material.filter(|text| !text.starts_with("https://")).for_each(|text| self.add_text(text));
        }
        self.add_text(&text);
    }

    /// The text, and how it looks inside a JSON text.
    fn add_text(&mut self, text: &str) {
        if text.len() < SECRET_MIN {
            return;
        }
        let quoted = Value::from(text).to_string();
        let escaped = &quoted[1..quoted.len() - 1];
        if escaped != text {
            self.secrets.push(escaped.to_owned());
        }
        self.secrets.push(text.to_owned());
    }

    /// The text without secrets.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = Cow::Owned(text.replace(secret.as_str(), REDACTED));
            }
        }
        text
    }
}
