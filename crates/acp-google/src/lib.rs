//! What the connectors for Google's services share: the credentials form, tokens, HTTP, retries, streaming of
//! rows, and how Google's errors become ACP errors.
//!
//! A connector makes one [`Google`] when it starts and one [`Session`] per call:
//!
//! ```no_run
//! # async fn call(google: acp_google::Google, credentials: acp_core::Credentials) -> acp_core::Result<()> {
//! let session = google.session(&credentials, &["https://www.googleapis.com/auth/analytics.readonly"])?;
//! let context = session.context("GA4 property 123").grant("Give it the Viewer role in GA4 Admin.");
//! let url = format!("{}/v1beta/properties/123:runReport", session.endpoints().analytics_data());
//! let body = session.post_stream(&url, &serde_json::json!({})).await.map_err(|failure| failure.into_acp(&context))?;
//! let rest: serde_json::Value =
//!     body.split("rows", |row| { let _ = row; Ok(()) }).await.map_err(|failure| failure.into_acp(&context))?;
//! # let _ = rest; Ok(())
//! # }
//! ```
//!
//! Two rules hold everywhere in this crate. No error, log line or `Debug` output holds a credential or a piece of
//! one: errors of parsers that quote their input are replaced by fixed texts, and Google's own words are checked
//! against the secrets before they are passed on. And a token is only ever sent to a host in [`Endpoints`].

mod check;
mod client;
mod clusters;
mod credentials;
mod endpoints;
mod error;
mod google;
mod http;
mod keys;
mod lanes;
mod redact;
mod regular_expression;
mod retry;
mod rows;
mod schema;
mod token;
mod upload;

pub use check::{Api, check};
pub use client::{Body, Rows, ServerErrors, Session, parse};
pub use clusters::Cluster;
pub use credentials::GoogleCredentials;
pub use endpoints::{Endpoints, SANDBOX_VARIABLE, path_segment};
pub use error::{BodyKind, Context, Failure, GoogleError, Transport, TransportKind};
pub use google::{Google, GoogleArgs, Options, StartError, Timing};
pub use keys::Keys;
pub use lanes::Lanes;
pub use redact::clean;
pub use regular_expression::{Patterns, check_re2};
pub use rows::{RowLimits, RowSplitter, RowsError};
pub use schema::credentials_schema;
