//! Where Google's APIs are, or the local stand-in for all of them.

use std::net::{Ipv4Addr, Ipv6Addr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::{Host, Url};

use crate::google::StartError;

/// Environment variable with the address of a local stand-in for Google, for tests and demonstrations.
pub const SANDBOX_VARIABLE: &str = "ACP_GOOGLE_SANDBOX";

/// Google's token endpoint.
const TOKEN: &str = "https://oauth2.googleapis.com/token";

/// What `token_uri` of a key may say. Key files of other years name other addresses of the same service. Any
/// other would make this process send signed assertions to wherever the author of the key wants.
const TOKEN_URIS: [&str; 3] =
    [TOKEN, "https://accounts.google.com/o/oauth2/token", "https://www.googleapis.com/oauth2/v4/token"];

/// Unreserved characters of RFC 3986 stay as they are.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Base addresses, without a slash at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    analytics_data: String,
    analytics_admin: String,
    search_console: String,
    bigquery: String,
    token: String,
    sandbox: bool,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self::google()
    }
}

impl Endpoints {
    /// Google's own.
    pub fn google() -> Self {
        Self {
            analytics_data: "https://analyticsdata.googleapis.com".to_owned(),
            analytics_admin: "https://analyticsadmin.googleapis.com".to_owned(),
            search_console: "https://searchconsole.googleapis.com".to_owned(),
            bigquery: "https://bigquery.googleapis.com".to_owned(),
            token: TOKEN.to_owned(),
            sandbox: false,
        }
    }

    /// One local address for everything. It must be plain HTTP on the loopback interface with a port, so that the
    /// switch can't be turned against a user whose environment somebody else writes.
    pub fn sandbox(address: &str) -> Result<Self, StartError> {
        let base = loopback(address).ok_or_else(|| {
            StartError::new(format!(
                "{SANDBOX_VARIABLE} must be http://127.0.0.1:PORT, http://localhost:PORT or http://[::1]:PORT"
            ))
        })?;
        Ok(Self {
            analytics_data: base.clone(),
            analytics_admin: base.clone(),
            search_console: base.clone(),
            token: format!("{base}/token"),
            bigquery: base,
            sandbox: true,
        })
    }

    /// What [`SANDBOX_VARIABLE`] says; Google's own when it is not set or empty.
    pub fn from_env() -> Result<Self, StartError> {
        match std::env::var_os(SANDBOX_VARIABLE) {
            Some(address) if !address.is_empty() => Self::sandbox(&address.to_string_lossy()),
            _ => Ok(Self::google()),
        }
    }

    /// Google Analytics Data API.
    pub fn analytics_data(&self) -> &str {
        &self.analytics_data
    }

    /// Google Analytics Admin API.
    pub fn analytics_admin(&self) -> &str {
        &self.analytics_admin
    }

    /// Search Console API, both its `webmasters/v3` and its `v1` paths.
    pub fn search_console(&self) -> &str {
        &self.search_console
    }

    /// BigQuery API.
    pub fn bigquery(&self) -> &str {
        &self.bigquery
    }

    /// The token endpoint, which is also the audience of assertions.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Whether the local stand-in is used.
    pub fn is_sandbox(&self) -> bool {
        self.sandbox
    }

    /// The token endpoint for a key that names `token_uri`, or `None` when it may not be used.
    pub(crate) fn token_for(&self, token_uri: Option<&str>) -> Option<&str> {
        match token_uri.map(str::trim) {
            None | Some("") => Some(&self.token),
            Some(uri) if uri == self.token => Some(&self.token),
            Some(uri) => {
                let known = TOKEN_URIS.into_iter().find(|known| *known == uri)?;
                Some(if self.sandbox { &self.token } else { known })
            }
        }
    }

    /// Whether a token may be sent to this address.
    pub(crate) fn trusts(&self, url: &Url) -> bool {
        [&self.analytics_data, &self.analytics_admin, &self.search_console, &self.bigquery]
            .into_iter()
            .filter_map(|base| Url::parse(base).ok())
            .any(|base| base.origin() == url.origin())
    }
}

/// A text as one segment of a path, for ids that hold slashes or colons such as the URL of a site.
pub fn path_segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

fn loopback(address: &str) -> Option<String> {
    let url = Url::parse(address.trim()).ok()?;
    let local = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(ip) => ip == Ipv4Addr::LOCALHOST,
        Host::Ipv6(ip) => ip == Ipv6Addr::LOCALHOST,
    };
    let plain = url.scheme() == "http"
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    // The parser drops the default port; a port of 80 is as good as any other when it was written.
    let port = url.port().or_else(|| address.trim().trim_end_matches('/').ends_with(":80").then_some(80))?;
    (local && plain).then(|| format!("http://{}:{port}", url.host_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandbox_is_local_or_refused() {
        for (address, base) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://localhost:1/", "http://localhost:1"),
            ("http://[::1]:9", "http://[::1]:9"),
            ("http://127.0.0.1:80", "http://127.0.0.1:80"),
        ] {
            let endpoints = Endpoints::sandbox(address).unwrap();
            assert_eq!(endpoints.bigquery(), base);
            assert_eq!(endpoints.token(), format!("{base}/token"));
            assert!(endpoints.is_sandbox());
        }
        for address in [
            "https://127.0.0.1:8080",
            "http://127.0.0.1",
            "http://localhost",
            "http://127.0.0.2:8080",
            "http://0.0.0.0:8080",
            "http://10.0.0.1:8080",
            "http://example.com:8080",
            "http://localhost.example.com:8080",
            "http://127.0.0.1:8080@example.com",
            "http://127.0.0.1:8080@example.com:80",
            "http://user@127.0.0.1:8080",
            "http://127.0.0.1:8080/path",
            "http://127.0.0.1:8080/?q",
            "http://127.0.0.1:8080/#f",
            "http://[::2]:8080",
            "127.0.0.1:8080",
            "file:///etc/passwd",
            "yes",
        ] {
            let error = Endpoints::sandbox(address).expect_err(address);
            assert!(error.to_string().starts_with(SANDBOX_VARIABLE), "{error}");
        }
    }

    #[test]
    fn only_googles_token_addresses_are_used() {
        let google = Endpoints::google();
        assert_eq!(google.token_for(None), Some(TOKEN));
        assert_eq!(google.token_for(Some(TOKEN_URIS[1])), Some(TOKEN_URIS[1]));
        for uri in [
            "http://oauth2.googleapis.com/token",
            "https://oauth2.googleapis.com/token/",
            "https://oauth2.googleapis.com/token?x",
            "https://oauth2.googleapis.com.example.com/token",
            "http://169.254.169.254/computeMetadata",
            "not a uri",
        ] {
            assert_eq!(google.token_for(Some(uri)), None, "{uri}");
        }
        let sandbox = Endpoints::sandbox("http://127.0.0.1:5").unwrap();
        assert_eq!(sandbox.token_for(Some(TOKEN)), Some("http://127.0.0.1:5/token"));
        assert_eq!(sandbox.token_for(Some("http://127.0.0.1:5/token")), Some("http://127.0.0.1:5/token"));
        assert_eq!(sandbox.token_for(Some("http://127.0.0.1:6/token")), None);
        assert_eq!(google.token_for(Some("http://127.0.0.1:5/token")), None);
    }

    #[test]
    fn tokens_go_to_known_hosts_only() {
        let google = Endpoints::google();
        let trusts = |url: &str| google.trusts(&Url::parse(url).unwrap());
        assert!(trusts("https://bigquery.googleapis.com/bigquery/v2/projects/p/queries"));
        assert!(!trusts("http://bigquery.googleapis.com/"));
        assert!(!trusts("https://bigquery.googleapis.com:8443/"));
        assert!(!trusts("https://bigquery.googleapis.com@example.com/"));
    }

    #[test]
    fn a_segment_has_no_separator_left() {
        assert_eq!(path_segment("https://example.com/ä b"), "https%3A%2F%2Fexample.com%2F%C3%A4%20b");
        assert_eq!(path_segment("sc-domain:example.com"), "sc-domain%3Aexample.com");
    }
}
