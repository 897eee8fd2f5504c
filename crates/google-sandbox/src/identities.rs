//! Who exists: two service accounts and one person, their keys, their live tokens, their credential files.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rsa::pkcs1v15::{Signature, VerifyingKey};
use rsa::pkcs8::{EncodePrivateKey, LineEnding};
use rsa::sha2::Sha256;
use rsa::signature::Verifier;
use rsa::{PrivateKey, PublicKey};
use serde_json::{Value, json};

use crate::clock::now_seconds;
use crate::{lock, token};

/// Seconds an access token lives; the answer says one less, as Google's does.
pub(crate) const TOKEN_SECONDS: i64 = 3600;

/// E-mail of the service account that sees every property.
pub const FULL_EMAIL: &str = "reports-full@acp-sandbox.iam.gserviceaccount.com";
/// E-mail of the service account that sees two properties.
pub const LIMITED_EMAIL: &str = "reports-limited@acp-sandbox.iam.gserviceaccount.com";
/// E-mail of the person behind the OAuth credential; sees what the full account sees.
pub const PERSON_EMAIL: &str = "analyst@acp-sandbox.example";

const CLIENT_ID: &str = "407408718192-sandbox.apps.googleusercontent.com";

/// What an identity may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Everything.
    Full,
    /// Only what the world marks as visible to the limited account.
    Limited,
}

/// An identity, as the APIs see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Its e-mail.
    pub(crate) email: String,
    /// What it may see.
    pub(crate) sight: Sight,
}

/// A live access token.
#[derive(Clone, Debug)]
struct Token {
    identity: Identity,
    scopes: Vec<String>,
    expires: i64,
}

/// A service account with the key that its signatures must match.
pub(crate) struct ServiceAccount {
    /// The identity it stands for.
    pub(crate) identity: Identity,
    verifier: VerifyingKey<Sha256>,
    key_id: String,
    pem: String,
}

impl ServiceAccount {
    /// Makes the key; slow (tenths of a second), so it belongs on a blocking thread.
    pub(crate) fn generate(email: &str, sight: Sight) -> io::Result<Self> {
        let key = PrivateKey::new(&mut rand::rngs::SysRng, 2048).map_err(io::Error::other)?;
        let pem = key.to_pkcs8_pem(LineEnding::LF).map_err(io::Error::other)?.to_string();
        let public: PublicKey = key.to_public_key();
        Ok(Self {
            identity: Identity { email: email.to_owned(), sight },
            verifier: VerifyingKey::new(public),
            key_id: random_text(20)?,
            pem,
        })
    }

    /// Whether `signature` is this account's RS256 signature of `message`.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::try_from(signature).is_ok_and(|signature| self.verifier.verify(message, &signature).is_ok())
    }

    fn key_file(&self, url: &str) -> Value {
        json!({
            "type": "service_account",
            "project_id": "acp-sandbox",
            "private_key_id": self.key_id,
            "private_key": self.pem,
            "client_email": self.identity.email,
            "client_id": match self.identity.sight {
                Sight::Full => "100000000000000000001",
                Sight::Limited => "100000000000000000002",
            },
            "auth_uri": "https://accounts.google.com/o/oauth2/auth",
            "token_uri": format!("{url}/token"),
            "universe_domain": "googleapis.com",
        })
    }
}

/// Why a token isn't accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No `Authorization` header.
    Missing,
    /// Unknown, expired or killed.
    Invalid,
    /// Live, but without the scope.
    Scope,
}

/// Paths of the credential files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialFiles {
    /// Service account that sees every property.
    pub full: PathBuf,
    /// Service account that sees two properties.
    pub limited: PathBuf,
    /// A person's OAuth credential with an expired access token.
    pub oauth: PathBuf,
}

/// All identities and their tokens.
pub(crate) struct Identities {
    accounts: Vec<ServiceAccount>,
    refresh_token: String,
    client_secret: String,
    expired_token: String,
    tokens: Mutex<HashMap<String, Token>>,
    /// Killed tokens: one that an account signed itself must stay dead too.
    revoked: Mutex<HashSet<String>>,
}

impl Identities {
    /// Generates both keys at the same time.
    pub(crate) async fn generate() -> io::Result<Self> {
        let full = tokio::task::spawn_blocking(|| ServiceAccount::generate(FULL_EMAIL, Sight::Full));
        let limited = tokio::task::spawn_blocking(|| ServiceAccount::generate(LIMITED_EMAIL, Sight::Limited));
        let accounts = vec![full.await.map_err(io::Error::other)??, limited.await.map_err(io::Error::other)??];
        Ok(Self {
            accounts,
            refresh_token: format!("1//0{}", random_text(30)?),
            client_secret: format!("GOCSPX-{}", random_text(21)?),
            expired_token: format!("ya29.{}", random_text(60)?),
            tokens: Mutex::default(),
            revoked: Mutex::default(),
        })
    }

    /// The service account with that e-mail.
    pub(crate) fn account(&self, email: &str) -> Option<&ServiceAccount> {
        self.accounts.iter().find(|a| a.identity.email == email)
    }

    /// The person, if the three secrets fit: `Err` says which of them doesn't.
    pub(crate) fn person(
        &self,
        client_id: &str,
        client_secret: &str,
        refresh_token: &str,
    ) -> Result<Identity, (&'static str, &'static str)> {
        if client_id != CLIENT_ID {
            return Err(("invalid_client", "The OAuth client was not found."));
        }
        if client_secret != self.client_secret {
            return Err(("invalid_client", "Unauthorized"));
        }
        if refresh_token != self.refresh_token {
            return Err(("invalid_grant", "Token has been expired or revoked."));
        }
        Ok(Identity { email: PERSON_EMAIL.to_owned(), sight: Sight::Full })
    }

    /// Issues an access token.
    pub(crate) fn issue(&self, identity: Identity, scopes: Vec<String>) -> io::Result<String> {
        let text = format!("ya29.{}", random_text(60)?);
        let token = Token { identity, scopes, expires: now_seconds() + TOKEN_SECONDS };
        let mut tokens = lock(&self.tokens);
        tokens.retain(|_, token| token.expires > now_seconds());
        tokens.insert(text.clone(), token);
        Ok(text)
    }

    /// Kills a token.
    pub(crate) fn revoke(&self, token: &str) {
        lock(&self.tokens).remove(token);
        lock(&self.revoked).insert(token.to_owned());
    }

    /// The identity behind a bearer token that has one of `scopes`.
    pub(crate) fn authorize(&self, bearer: Option<&str>, scopes: &[&str]) -> Result<Identity, Refused> {
        let bearer = bearer.ok_or(Refused::Missing)?;
        let (identity, granted) = self.granted(bearer).ok_or(Refused::Invalid)?;
        if granted.iter().any(|scope| scopes.contains(&scope.as_str())) { Ok(identity) } else { Err(Refused::Scope) }
    }

    /// Who a live token stands for, and its scopes.
    fn granted(&self, bearer: &str) -> Option<(Identity, Vec<String>)> {
        if lock(&self.revoked).contains(bearer) {
            return None;
        }
        match lock(&self.tokens).get(bearer) {
            Some(token) if token.expires > now_seconds() => Some((token.identity.clone(), token.scopes.clone())),
            Some(_) => None,
            None => token::self_signed(self, bearer),
        }
    }

    /// Writes the three credential files, readable by their owner only.
    pub(crate) fn write_files(&self, dir: &Path, url: &str) -> io::Result<CredentialFiles> {
        std::fs::create_dir_all(dir)?;
        let mut paths = Vec::new();
        for (account, name) in self.accounts.iter().zip(["full.json", "limited.json"]) {
            let credentials = json!({
                "type": "service_account",
                "service_account": account.key_file(url).to_string(),
            });
            paths.push(write_private(&dir.join(name), &credentials.to_string())?);
        }
        let oauth = json!({
            "type": "oauth",
            "access_token": self.expired_token,
            "refresh_token": self.refresh_token,
            "client_id": CLIENT_ID,
            "client_secret": self.client_secret,
            "expiry_date": (now_seconds() - 3600) * 1000,
            "email": PERSON_EMAIL,
        });
        let oauth = write_private(&dir.join("oauth.json"), &oauth.to_string())?;
        let [full, limited] =
            <[PathBuf; 2]>::try_from(paths).map_err(|_| io::Error::other("two service accounts expected"))?;
        Ok(CredentialFiles { full, limited, oauth })
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<PathBuf> {
    use std::io::Write;

    // A new file, so that the mode is ours whatever was there before.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())?;
    std::path::absolute(path)
}

/// Random bytes as URL-safe text.
fn random_text(bytes: usize) -> io::Result<String> {
    use rand::TryRng;

    let mut buffer = vec![0_u8; bytes];
    rand::rngs::SysRng.try_fill_bytes(&mut buffer).map_err(io::Error::other)?;
    Ok(URL_SAFE_NO_PAD.encode(buffer))
}
