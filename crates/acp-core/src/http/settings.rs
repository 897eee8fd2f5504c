//! Where the server listens and what it asks for. A combination that would leave it open to others refuses to start.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::access::Token;

/// The port of the specification's examples.
const DEFAULT_PORT: u16 = 7413;

#[derive(Args, Debug, Default)]
pub(crate) struct HttpFlags {
    /// Serve Streamable HTTP at /mcp instead of stdin and stdout.
    #[arg(long)]
    pub(crate) http: bool,
    /// Port; 0 takes any free one [default: ACP_PORT, else 7413].
    #[arg(long, requires = "http", value_name = "PORT")]
    port: Option<u16>,
    /// IP address to listen on; one that other machines can reach needs ACP_HTTP_TOKEN [default: 127.0.0.1].
    #[arg(long, requires = "http", value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// Certificate chain in PEM form: serve https.
    #[arg(long, requires = "http", requires = "tls_key", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM form.
    #[arg(long, requires = "http", requires = "tls_cert", value_name = "FILE")]
    tls_key: Option<PathBuf>,
}

#[cfg(test)]
impl HttpFlags {
    pub(super) fn with_tls(certificates: PathBuf, key: PathBuf) -> Self {
        Self { tls_cert: Some(certificates), tls_key: Some(key), ..Self::default() }
    }
}

/// What the environment says about HTTP.
#[derive(Default)]
pub(crate) struct Environment {
    /// `ACP_PORT`.
    pub(crate) port: Option<OsString>,
    /// `ACP_HTTP_TOKEN`.
    pub(crate) token: Option<OsString>,
    /// Whether `ACP_TMP_DIR` names a folder.
    pub(crate) tmp_dir: bool,
}

/// Settings that are safe to serve with.
pub(crate) struct Settings {
    pub(super) address: SocketAddr,
    pub(super) token: Option<Token>,
    pub(super) tls: Option<Arc<ServerConfig>>,
    /// Whether the host said where it looks for files.
    pub(super) host_gave_folder: bool,
    /// What the person who starts the server should know.
    pub(crate) warning: Option<&'static str>,
}

impl Settings {
    /// Checks the flags and the environment. The error says what to change.
    pub(crate) fn new(flags: HttpFlags, environment: &Environment) -> Result<Self, String> {
        let port = match flags.port {
            Some(port) => port,
            None => environment.port.as_deref().filter(|port| !port.is_empty()).map_or(Ok(DEFAULT_PORT), port)?,
        };
        let address = SocketAddr::new(flags.bind.unwrap_or(Ipv4Addr::LOCALHOST.into()), port);
        let token = environment.token.as_deref().map(token).transpose()?;
        let local = address.ip().is_loopback();
        if !local && token.is_none() {
            return Err(format!(
                "other machines can reach {}, so a token is needed: set ACP_HTTP_TOKEN, or listen on 127.0.0.1",
                address.ip()
            ));
        }
        let tls = match (&flags.tls_cert, &flags.tls_key) {
            (Some(certificates), Some(key)) => Some(Arc::new(tls(certificates, key)?)),
            _ => None,
        };
        let open_wire = "without --tls-cert, tokens and data cross the network in plain text unless a proxy in front of this server speaks TLS";
        let warning = (!local && tls.is_none()).then_some(open_wire);
        Ok(Self { address, token, tls, host_gave_folder: environment.tmp_dir, warning })
    }
}

fn port(text: &OsStr) -> Result<u16, String> {
    let port = text.to_str().and_then(|text| text.parse().ok());
    port.ok_or_else(|| format!("ACP_PORT must be a port number from 0 to 65535, and not {text:?}"))
}

/// Errors say nothing about the token itself.
fn token(text: &OsStr) -> Result<Token, String> {
    match text.to_str() {
        Some("") => {
            Err("ACP_HTTP_TOKEN is empty: set it to a secret, or remove it to serve this machine alone".to_owned())
        }
        Some(text) if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Token::new(text)),
        _ => {
            Err("ACP_HTTP_TOKEN must be visible ASCII characters without spaces, as a header can carry them".to_owned())
        }
    }
}

fn tls(certificates: &Path, key: &Path) -> Result<ServerConfig, String> {
    let unreadable = |flag: &str, path: &Path, error: &dyn std::fmt::Display| {
        format!("the file {} of {flag} can't be used: {error}", path.display())
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable("--tls-cert", certificates, &error))?;
    if chain.is_empty() {
        return Err(unreadable("--tls-cert", certificates, &"there is no certificate in PEM form"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("--tls-key", key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(|error| unreadable("--tls-cert", certificates, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: HttpFlags, port: Option<&str>, token: Option<&str>) -> Result<Settings, String> {
        let environment = Environment { port: port.map(Into::into), token: token.map(Into::into), tmp_dir: false };
        Settings::new(flags, &environment)
    }

    #[test]
    fn the_flag_wins_over_the_environment() {
        let with = |flag, environment| {
            settings(HttpFlags { port: flag, ..HttpFlags::default() }, environment, None)
                .map(|settings| settings.address)
        };
        assert_eq!(with(None, None).unwrap().to_string(), "127.0.0.1:7413");
        assert_eq!(with(None, Some("")).unwrap().port(), 7413);
        assert_eq!(with(None, Some("1234")).unwrap().port(), 1234);
        assert_eq!(with(Some(5), Some("1234")).unwrap().port(), 5);
        for wrong in ["http", "65536", "-1", "7413 "] {
            assert!(with(None, Some(wrong)).unwrap_err().contains("ACP_PORT"));
        }
    }

    #[test]
    fn what_others_can_reach_needs_a_token() {
        let with = |bind: &str, token| {
            settings(HttpFlags { bind: Some(bind.parse().unwrap()), ..HttpFlags::default() }, None, token)
        };
        for local in ["127.0.0.1", "127.0.0.9", "::1"] {
            assert!(with(local, None).unwrap().warning.is_none());
        }
        for open in ["0.0.0.0", "::", "10.0.0.1", "::ffff:127.0.0.1"] {
            assert!(with(open, None).err().unwrap().contains("ACP_HTTP_TOKEN"), "{open}");
            assert!(with(open, Some("t")).unwrap().warning.is_some());
        }
        for bad in ["", " ", "a b", "secret\n", "sécret"] {
            let error = with("127.0.0.1", Some(bad)).err().unwrap();
            assert!(error.contains("ACP_HTTP_TOKEN") && !error.contains("cret\n"), "{error}");
        }
    }
}
