//! Plain HTTP under everything else: one lazily built client, bounds on time and size, errors without addresses.

use std::error::Error as _;
use std::future::Future;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use acp_core::Error;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use reqwest::{Certificate, RequestBuilder, Response};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::error::{Failure, TransportKind};
use crate::google::{StartError, Timing};
use crate::retry::http_date;

/// Bytes of an answer that is read as a whole, after decompression.
pub(crate) const WHOLE: usize = 64 << 20;
/// Bytes of an answer of the token endpoint, and of the body of an error.
pub(crate) const SMALL: usize = 64 << 10;

/// Bytes of a stream that are on their way before somebody reads them.
const STREAM_WINDOW: u32 = 2 << 20;

/// The client and its bounds.
#[derive(Debug)]
pub(crate) struct Http {
    certificates: Vec<Certificate>,
    sandbox: bool,
    pub(crate) timing: Timing,
    client: OnceLock<Result<reqwest::Client, String>>,
    /// Seconds by which this computer's clock was ahead of the last answer's date.
    clock: AtomicI64,
}

/// No answer with a date came yet.
const UNKNOWN: i64 = i64::MIN;

impl Http {
    pub(crate) fn new(certificates: Vec<Certificate>, sandbox: bool, timing: Timing) -> Self {
        Self { certificates, sandbox, timing, client: OnceLock::new(), clock: AtomicI64::new(UNKNOWN) }
    }

    /// The client, built on first use because reading the system's certificates takes longer than a start may.
    pub(crate) fn client(&self) -> Result<&reqwest::Client, Error> {
        self.client.get_or_init(|| self.build()).as_ref().map_err(|cause| {
            Error::upstream(format!(
                "Secure connections can't be set up on this computer: {cause}. Install its CA certificates, or start \
                 the server with --ca-file."
            ))
        })
    }

    fn build(&self) -> Result<reqwest::Client, String> {
        // An error means that the process has a provider already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("acp-connectors/", env!("CARGO_PKG_VERSION")))
            // Google's APIs don't redirect; a redirect would carry the token to another host.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(self.timing.connect)
            // Fixed windows: an adaptive one grows to many megabytes per connection, and a page that nobody reads yet
            // should wait at Google and not here.
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(2 * STREAM_WINDOW)
            .gzip(true);
        builder = if self.sandbox {
            // A proxy in the environment is not for this computer's own address. There is no TLS, so no
            // certificates have to be loaded either.
            builder.no_proxy().tls_certs_only([])
        } else {
            builder.tls_certs_merge(self.certificates.iter().cloned())
        };
        builder.build().map_err(|error| innermost(&error))
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(&self, request: RequestBuilder, limit: Duration) -> Result<Response, Failure> {
        let response = within(limit, request.send()).await?.map_err(|error| {
            let kind = match () {
                () if error.is_connect() => TransportKind::Connect,
                () if error.is_timeout() => TransportKind::Timeout,
                () => TransportKind::NoAnswer,
            };
            failure(kind, error)
        })?;
        if let Some(error) = clock_error(&response) {
            self.clock.store(error.as_secs(), Ordering::Relaxed);
        }
        Ok(response)
    }

    /// How far this computer's clock is ahead of the server's, as the last answer dated itself.
    pub(crate) fn clock_error(&self) -> Option<SignedDuration> {
        let seconds = self.clock.load(Ordering::Relaxed);
        (seconds != UNKNOWN).then(|| SignedDuration::from_secs(seconds))
    }

    /// The next part of a body.
    pub(crate) async fn chunk(&self, response: &mut Response) -> Result<Option<Bytes>, Failure> {
        let chunk = tokio::time::timeout(self.timing.idle, response.chunk()).await.map_err(|_| {
            let cause = format!("nothing came for {} seconds", self.timing.idle.as_secs_f32());
            Failure::transport(TransportKind::Timeout, &cause)
        })?;
        chunk.map_err(|error| failure(TransportKind::Broken, error))
    }

    /// A body as a whole. One over `limit` bytes gives `None`, with the rest left unread.
    pub(crate) async fn whole(&self, response: &mut Response, limit: usize) -> Result<Option<Vec<u8>>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk(response).await? {
            if body.len() + chunk.len() > limit {
                return Ok(None);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Some(body))
    }

    /// The beginning of a body, up to `limit` bytes; whatever goes wrong ends it.
    pub(crate) async fn beginning(&self, response: &mut Response, limit: usize) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < limit {
            let Ok(Some(chunk)) = self.chunk(response).await else { break };
            body.extend_from_slice(&chunk[..chunk.len().min(limit - body.len())]);
        }
        body
    }
}

fn clock_error(response: &Response) -> Option<SignedDuration> {
    let date = response.headers().get(reqwest::header::DATE)?.to_str().ok()?;
    Some(Timestamp::now().duration_since(http_date(date)?))
}

/// Bounds a wait.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::time::timeout(limit, work).await.map_err(|_| {
        Failure::transport(TransportKind::Timeout, &format!("no answer within {} seconds", limit.as_secs_f32()))
    })
}

fn failure(kind: TransportKind, error: reqwest::Error) -> Failure {
    Failure::transport(kind, &innermost(&error.without_url()))
}

/// The first cause, which is the one that says something ("connection refused", "UnknownIssuer"), and the only one
/// without the address.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    let mut text = None;
    while let Some(error) = cause {
        text = Some(error.to_string());
        cause = error.source();
    }
    text.unwrap_or_else(|| error.to_string())
}

/// The certificates of a PEM file, each checked, so that a wrong file is told at the start and not as a failed
/// connection later.
pub(crate) fn read_certificates(path: &Path) -> Result<Vec<Certificate>, StartError> {
    let shown = path.display();
    let pem = std::fs::read(path)
        .map_err(|error| StartError::new(format!("the certificates in {shown} can't be read: {error}")))?;
    let mut roots = rustls::RootCertStore::empty();
    let mut certificates = Vec::new();
    for (place, item) in CertificateDer::pem_slice_iter(&pem).enumerate() {
        // Fixed texts: the parser's errors quote what they read, and the file may be a key by mistake.
        let der = item.map_err(|_| StartError::new(format!("{shown} is not a well-formed PEM file")))?;
        let invalid = || StartError::new(format!("entry {} of {shown} is not a valid certificate", place + 1));
        let certificate = Certificate::from_der(&der).map_err(|_| invalid())?;
        roots.add(der).map_err(|_| invalid())?;
        certificates.push(certificate);
    }
    if certificates.is_empty() {
        return Err(StartError::new(format!("{shown} holds no certificate (expected PEM: BEGIN CERTIFICATE)")));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root made for this test; nobody has its key.
    const ROOT: &str = "\
-----BEGIN CERTIFICATE-----
MIIBiDCCAS2gAwIBAgIUCZmTf32f9RG08QwieGxn0bVqH1wwCgYIKoZIzj0EAwIw
GDEWMBQGA1UEAwwNYWNwIHRlc3Qgcm9vdDAgFw0yNjEyMDEwMDQ2MzFaGA8yMTI2
MTEwNzAwNDYzMVowGDEWMBQGA1UEAwwNYWNwIHRlc3Qgcm9vdDBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABMKx5Dthke3XIOjVXmZz7hcxJWyUldYnduDrPHp0mvOr
aXm2tvV3pMFzsPmVyCcOPzQXq0Cls+pb52B5fEtG/9GjUzBRMB0GA1UdDgQWBBRd
0bebyJx+kt0Cnub+l/Hba9GExDAfBgNVHSMEGDAWgBRd0bebyJx+kt0Cnub+l/Hb
a9GExDAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0kAMEYCIQD9wpLNOaGj
rHYPS4TZKpciMt2z1mTtWsKw1pfVys0WiAIhAKVyDYU7E8COsyHfHqvC+gClTDbM
0qw44PTzCbGHBbOh
-----END CERTIFICATE-----
";

    #[test]
    fn a_certificate_file_is_trusted_beside_the_system() {
        let folder = tempfile();
        let path = folder.join("root.pem");
        std::fs::write(&path, format!("a comment\n{ROOT}{ROOT}")).unwrap();
        let certificates = read_certificates(&path).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(certificates.len(), 2);
        let http = Http::new(certificates, false, Timing::default());
        assert!(http.client.get().is_none(), "the client is built with the first request");
        http.client().unwrap();
    }

    #[test]
    fn the_sandbox_needs_no_certificates() {
        Http::new(Vec::new(), true, Timing::default()).client().unwrap();
    }

    fn tempfile() -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("acp-google-http-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }
}
