//! What can be wrong with credentials for Google, in the order in which it shows.

use acp_core::{Call, Error, Fault, Steps};
use jiff::SignedDuration;
use serde::de::IgnoredAny;

use crate::client::Session;
use crate::credentials::Kind;
use crate::error::Failure;
use crate::google::Google;
use crate::token::clock_text;

/// From here on a clock is worth a word. Google refuses keys when it is off by some minutes.
const CLOCK: SignedDuration = SignedDuration::from_secs(60);

/// An API that has to be enabled.
#[derive(Clone, Debug)]
pub struct Api {
    /// As Google's console names it.
    pub name: &'static str,
    /// The smallest request that any account may make.
    pub url: String,
}

/// The steps that all of Google's APIs share: key, token, clock, scopes, and each API. The first answer that fails for a
/// reason of the credentials ends them, since all others would fail for it too.
pub async fn check(google: &Google, call: &Call, scopes: &'static [&'static str], apis: &[Api], steps: &mut Steps) {
    let session = call.credentials().and_then(|credentials| google.session(credentials, scopes));
    let session = match session {
        Ok(session) => session,
        Err(error) => return steps.fail("key", Fault::Credentials, error.message()),
    };
    steps.ok("key", what(&session));
    let token = session.access_token().await;
    match &token {
        Ok(_) => steps.ok("token", "Google gave an access token, or the one that came is still good"),
        Err(error) => steps.fail("token", fault_of_token(error), error.message()),
    }
    clock(google, steps);
    if token.is_err() {
        return;
    }
    let mut scopes_told = false;
    for api in apis {
        let answer = session.get::<IgnoredAny>(&api.url).await;
        if let Err(failure) = &answer
            && let Some((step, why)) = of_credentials(failure, &session, scopes)
        {
            return steps.fail(step, Fault::Credentials, why);
        }
        if !scopes_told && !matches!(answer, Err(Failure::Transport(_))) {
            steps.ok("scopes", scopes.join(" "));
            scopes_told = true;
        }
        match answer {
            Ok(_) => steps.ok("API", format_args!("{} answers", api.name)),
            Err(failure) => {
                let fault = if matches!(failure, Failure::Transport(_)) { Fault::Unreachable } else { Fault::Source };
                let why = failure.into_acp(&session.context(api.name));
                steps.fail("API", fault, format_args!("{}: {}", api.name, why.message()));
            }
        }
    }
}

/// What the credentials are, and whose.
fn what(session: &Session) -> String {
    let credentials = session.credentials();
    let who = credentials.principal().unwrap_or("an unnamed account");
    match credentials.kind() {
        Kind::ServiceAccount(_) => format!("a key of the service account {who}, well formed"),
        Kind::OAuth(oauth) if oauth.refresh.is_some() => format!("a login of {who}, which can be refreshed"),
        Kind::OAuth(_) => format!("an access token of {who}, which can't be refreshed and ends within the hour"),
    }
}

/// No status means that there was no answer.
fn fault_of_token(error: &Error) -> Fault {
    let answered = error.data().is_some_and(|data| data.contains_key("http_status"));
    match Fault::of(error) {
        Fault::Credentials => Fault::Credentials,
        _ if answered => Fault::Source,
        _ => Fault::Unreachable,
    }
}

fn clock(google: &Google, steps: &mut Steps) {
    let Some(error) = google.shared().http.clock_error() else { return };
    if error.abs() < CLOCK {
        return steps.ok("clock", "this computer's clock agrees with Google's");
    }
    let why = format!(
        "This computer's clock is off{}. Set it: Google refuses keys that seem to come from another time.",
        clock_text(Some(error))
    );
    match steps.has_failed() {
        true => steps.fail("clock", Fault::Credentials, why),
        false => steps.warn("clock", why),
    }
}

/// The step that failed for a reason of the credentials, and why.
fn of_credentials(failure: &Failure, session: &Session, scopes: &[&str]) -> Option<(&'static str, String)> {
    match failure {
        Failure::Google(error) if error.lacks_scope() => Some((
            "scopes",
            format!(
                "The authorisation does not cover {}. Sign in again and allow it; of a service account, use the key file.",
                scopes.join(" ")
            ),
        )),
        Failure::Google(error) if error.http_status == 401 || error.is_authentication() => {
            Some(("token", failure.clone().into_acp(&session.context("this API")).message().to_owned()))
        }
        Failure::Acp(error) if Fault::of(error) == Fault::Credentials => Some(("token", error.message().to_owned())),
        _ => None,
    }
}
