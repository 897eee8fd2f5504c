//! `boom`: fails in every way a source can.

use acp_core::{Call, Error, Hints, Info, Result, Tool, ToolSpec};
use acp_protocol::error::ErrorCode;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::source::{Toy, rejected};

/// Fails in the way it is told.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Boom {
    /// The way.
    kind: Kind,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
enum Kind {
    #[serde(rename = "panic")]
    Panic,
    #[serde(rename = "untyped")]
    Untyped,
    #[serde(rename = "401")]
    Unauthorized,
    #[serde(rename = "403auth")]
    Revoked,
    #[serde(rename = "403perm")]
    Forbidden,
    #[serde(rename = "404")]
    NotFound,
    #[serde(rename = "429")]
    TooMany,
    #[serde(rename = "500")]
    Broken,
    #[serde(rename = "echo")]
    Echo,
}

impl Tool for Boom {
    type Source = Toy;
    type Answer = Info;
    const SPEC: ToolSpec =
        ToolSpec { name: "boom", title: "Boom", resource: false, credentials: false, hints: Hints::READS_LOCAL };

    async fn run(self, _: &Toy, call: &Call) -> Result<Info> {
        Err(match self.kind {
            // The secret is in the text on purpose: nothing may print it.
            Kind::Panic => panic!("the toy went off with {}", secret(call)),
            Kind::Untyped => untyped(),
            Kind::Unauthorized => rejected(),
            Kind::Revoked => Error::credentials_invalid(
                "The source says that this key is disabled (403). The person has to put another in the host's settings.",
            ),
            Kind::Forbidden => Error::resource_not_found(
                "These credentials may not see this account (403). Call autocontext to list those they see.",
            ),
            Kind::NotFound => {
                Error::resource_not_found("There is no such account (404). Call autocontext to list the accounts.")
            }
            Kind::TooMany => {
                Error::upstream("The source allows no more calls for now (429). Wait a minute and repeat the call.")
            }
            Kind::Broken => Error::upstream("The source failed (500). Repeat the call."),
            Kind::Echo => echo(call),
        })
    }
}

/// An error that is not typed where it happens.
fn untyped() -> Error {
    let error = "not a number".parse::<u8>().err().map(|error| error.to_string()).unwrap_or_default();
    Error::new(ErrorCode::UpstreamError, format!("The source answered something unexpected: {error}. Repeat the call."))
}

/// A source that repeats the key it was given; the text is cleaned before it goes on.
fn echo(call: &Call) -> Error {
    let secret = secret(call);
    let said = format!("invalid request: key={secret}");
    let said = if secret.is_empty() { said } else { said.replace(&secret, "[redacted]") };
    Error::upstream(format!("The source failed: {said}. Repeat the call."))
}

fn secret(call: &Call) -> String {
    let Ok(credentials) = call.credentials() else { return String::new() };
    let key = credentials.text("api_key").or_else(|| credentials.text("access_token"));
    key.map(|key| (*key.expose()).to_owned()).unwrap_or_default()
}
