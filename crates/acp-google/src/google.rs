//! The one shared client of a process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use acp_core::{Credentials, Result};

use crate::client::Session;
use crate::credentials::GoogleCredentials;
use crate::endpoints::Endpoints;
use crate::http::{Http, read_certificates};
use crate::token::Tokens;
use url::Url;

/// Everything that talks to Google from this process: connections, tokens, bounds. Clones share all of it.
#[derive(Clone, Debug)]
pub struct Google(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) endpoints: Endpoints,
    pub(crate) http: Http,
    pub(crate) tokens: Tokens,
}

/// How a [`Google`] is to be made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where the APIs are.
    pub endpoints: Endpoints,
    /// A PEM file with certificates to trust beside those of the system.
    pub ca_file: Option<PathBuf>,
    /// Bounds on time.
    pub timing: Timing,
}

/// Bounds on time. The defaults are for production; tests shorten them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// To make a connection.
    pub connect: Duration,
    /// From sending a request to the first byte of its answer: a large report takes minutes.
    pub headers: Duration,
    /// Between two parts of a body.
    pub idle: Duration,
    /// For one exchange with the token endpoint.
    pub token: Duration,
    /// The first wait before another try; each next one is twice as long.
    pub first_wait: Duration,
    /// The longest of those waits.
    pub longest_wait: Duration,
    /// The longest wait a server may ask for; beyond it the request fails at once.
    pub longest_retry_after: Duration,
    /// All waits of one request together.
    pub wait_budget: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            headers: Duration::from_secs(180),
            idle: Duration::from_secs(60),
            token: Duration::from_secs(10),
            first_wait: Duration::from_millis(250),
            longest_wait: Duration::from_secs(8),
            longest_retry_after: Duration::from_secs(20),
            wait_budget: Duration::from_secs(30),
        }
    }
}

/// A setting with which the process can't start, worded for the person at the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError(String);

impl StartError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl std::fmt::Display for StartError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// Command line options that every connector for a Google service has; to be flattened into its own.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct GoogleArgs {
    /// PEM file with certificates to trust beside those of the system, for networks that inspect TLS traffic
    #[arg(long, env = "ACP_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

impl GoogleArgs {
    /// The client these options and the environment ask for.
    pub fn connect(&self) -> Result<Google, StartError> {
        // An empty variable is an unset one.
        let ca_file = self.ca_file.clone().filter(|path| !path.as_os_str().is_empty());
        Google::new(Options { endpoints: Endpoints::from_env()?, ca_file, ..Options::default() })
    }
}

impl Google {
    /// Checks the options. Connections, and with them the system's certificates, come with the first request, so
    /// that a process which only says what it can do starts at once.
    pub fn new(options: Options) -> Result<Self, StartError> {
        if !options.endpoints.is_sandbox() {
            check_proxies()?;
        }
        let certificates = match &options.ca_file {
            Some(path) => read_certificates(path)?,
            None => Vec::new(),
        };
        Ok(Self(Arc::new(Shared {
            http: Http::new(certificates, options.endpoints.is_sandbox(), options.timing),
            endpoints: options.endpoints,
            tokens: Tokens::new(),
        })))
    }

    /// Where the APIs are.
    pub fn endpoints(&self) -> &Endpoints {
        &self.0.endpoints
    }

    /// Reads the credentials of a call, for requests within `scopes`. It sends nothing; credentials that are not
    /// well formed are `ACP_CREDENTIALS_INVALID` here, ones that Google refuses with the first request.
    pub fn session(&self, credentials: &Credentials, scopes: &'static [&'static str]) -> Result<Session> {
        let credentials = GoogleCredentials::read(credentials, self.endpoints())?;
        Ok(Session::new(self.clone(), credentials, scopes))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }
}

/// A proxy that can't be used would be left out in silence, and requests would go past it.
fn check_proxies() -> Result<(), StartError> {
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        let Ok(value) = std::env::var(name) else { continue };
        if !value.trim().is_empty() && !is_proxy(value.trim()) {
            return Err(StartError::new(format!(
                "{name} is not the address of a proxy, such as http://proxy.example:3128"
            )));
        }
    }
    Ok(())
}

/// Proxies are often written without a scheme.
fn is_proxy(address: &str) -> bool {
    if !address.contains("://") && address.contains("//") {
        return false;
    }
    let address = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    Url::parse(&address).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https" | "socks4" | "socks4a" | "socks5" | "socks5h") && url.has_host()
    })
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    #[test]
    fn the_arguments_have_help_and_read_back() {
        let mut command = GoogleArgs::augment_args(Command::new("ga4"));
        let help = command.render_long_help().to_string();
        assert!(help.contains("--ca-file <FILE>") && help.contains("ACP_CA_FILE"), "{help}");
        let matches = command.try_get_matches_from(["ga4", "--ca-file", "a.pem"]).unwrap();
        let args = GoogleArgs::from_arg_matches(&matches).unwrap();
        assert_eq!(args, GoogleArgs { ca_file: Some("a.pem".into()) });
        assert!(args.connect().unwrap_err().to_string().contains("a.pem"));
    }

    #[test]
    fn proxies_are_recognised() {
        for good in ["http://proxy:3128", "proxy.example:80", "https://user:pass@proxy", "socks5h://[::1]:1080"] {
            assert!(is_proxy(good), "{good}");
        }
        for bad in ["::garbage::", "htp//proxy", "proxy host:80", "ftp://proxy", "http://"] {
            assert!(!is_proxy(bad), "{bad}");
        }
    }

    #[test]
    fn files_that_hold_no_certificate_are_refused_at_the_start() {
        let folder = std::env::temp_dir().join(format!("acp-google-ca-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, content, part) in [
            ("text.pem", "hello", "holds no certificate"),
            ("key.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "holds no certificate"),
            ("bad.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "not a valid certificate"),
            ("cut.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n", "PEM"),
        ] {
            let path = folder.join(name);
            std::fs::write(&path, content).unwrap();
            let error = Google::new(Options { ca_file: Some(path), ..Options::default() }).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(name), "{error}");
        }
        let error = Google::new(Options { ca_file: Some(folder.join("missing.pem")), ..Options::default() });
        assert!(error.unwrap_err().to_string().contains("can't be read"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
