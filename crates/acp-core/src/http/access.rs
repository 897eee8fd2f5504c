//! Who may ask: nobody from another site's page, and where there is a token, only who has it.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The token that clients have to send. Only its hash is kept: hashes have one length, so that comparing them tells
/// nothing about the token.
pub(crate) struct Token([u8; 32]);

impl Token {
    pub(super) fn new(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    fn is(&self, given: &str) -> bool {
        Self::new(given).0.ct_eq(&self.0).into()
    }
}

/// What is checked before a request is looked at.
pub(super) struct Access {
    /// Whether only this machine can connect.
    local: bool,
    token: Option<Token>,
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Host,
    Origin,
    Token,
}

impl Access {
    pub(super) fn new(bound_to: IpAddr, token: Option<Token>) -> Self {
        Self { local: bound_to.is_loopback(), token }
    }

    /// A page in a browser can reach this machine. It can neither hide its origin nor choose another host name than
    /// its own, so both are checked, whatever token it has. Without a browser nobody sends an origin.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
        let host = host(uri, headers).ok_or(Refused::Host)?;
        if self.local && !is_loopback(host.host()) {
            return Err(Refused::Host);
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        if !origins.all(|origin| self.local && origin.to_str().is_ok_and(is_local_origin)) {
            return Err(Refused::Origin);
        }
        match &self.token {
            Some(token) if !bearer(headers).is_some_and(|given| token.is(given)) => Err(Refused::Token),
            _ => Ok(()),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::Host => {
                (StatusCode::FORBIDDEN, "Forbidden: this server does not go by that host name.\n").into_response()
            }
            Self::Origin => (StatusCode::FORBIDDEN, "Forbidden: not from a page of another site.\n").into_response(),
            Self::Token => (
                StatusCode::UNAUTHORIZED,
                [(header::WWW_AUTHENTICATE, "Bearer")],
                "Unauthorized: send the token of this server as Authorization: Bearer.\n",
            )
                .into_response(),
        }
    }
}

/// The name by which the client reached the server.
pub(super) fn host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let mut named = headers.get_all(header::HOST).iter();
    let named = match (named.next(), named.next()) {
        (_, Some(_)) => return None,
        (None, None) => return uri.authority().cloned(),
        (Some(named), None) => Authority::try_from(named.as_bytes()).ok()?,
    };
    // A name for another server is not a host.
    (!named.as_str().contains('@') && uri.authority().is_none_or(|authority| *authority == named)).then_some(named)
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_local_origin(origin: &str) -> bool {
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    matches!(origin.scheme_str(), Some("http" | "https"))
        && matches!(origin.path(), "" | "/")
        && origin.host().is_some_and(is_loopback)
        && origin.authority().is_some_and(|authority| !authority.as_str().contains('@'))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(given), None) = (given.next(), given.next()) else { return None };
    let (scheme, token) = given.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim_matches(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bound_to: &str, token: Option<&str>, uri: &str, headers: &[(&'static str, &str)]) -> Result<(), Refused> {
        let access = Access::new(bound_to.parse().unwrap(), token.map(Token::new));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        access.check(&uri.parse().unwrap(), &map)
    }

    #[test]
    fn hosts() {
        for host in ["localhost", "LOCALHOST:7413", "127.0.0.1:1", "127.1.2.3", "[::1]:80", "[::1]"] {
            assert_eq!(check("127.0.0.1", None, "/mcp", &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0", "a@localhost", ""] {
            assert_eq!(check("127.0.0.1", None, "/mcp", &[("host", host)]), Err(Refused::Host), "{host}");
        }
        assert_eq!(check("::1", None, "/mcp", &[]), Err(Refused::Host));
        assert_eq!(check("::1", None, "/mcp", &[("host", "localhost"), ("host", "localhost")]), Err(Refused::Host));
        // HTTP/2 has the host in the address.
        assert_eq!(check("::1", None, "https://localhost:1/mcp", &[]), Ok(()));
        assert_eq!(check("::1", None, "https://evil.example/mcp", &[("host", "localhost")]), Err(Refused::Host));
        let bearer = ("authorization", "Bearer t");
        assert_eq!(check("0.0.0.0", Some("t"), "/mcp", &[("host", "acp.example"), bearer]), Ok(()));
    }

    #[test]
    fn origins_are_refused_whatever_the_token() {
        let origin = |bound_to, origin: &str| {
            let headers = [("host", "localhost"), ("authorization", "Bearer t"), ("origin", origin)];
            check(bound_to, Some("t"), "/mcp", &headers)
        };
        for local in ["http://localhost", "http://localhost:6274", "https://127.0.0.1:1", "http://[::1]:3000"] {
            assert_eq!(origin("127.0.0.1", local), Ok(()), "{local}");
            assert_eq!(origin("0.0.0.0", local), Err(Refused::Origin), "{local}");
        }
        for other in [
            "null",
            "https://evil.example",
            "http://localhost.evil.example",
            "http://localhost@evil.example",
            "http://evil.example@localhost",
            "file://localhost",
            "localhost",
            "",
            "chrome-extension://abc",
        ] {
            assert_eq!(origin("127.0.0.1", other), Err(Refused::Origin), "{other}");
        }
    }

    #[test]
    fn tokens() {
        let with = |given: &[&str]| {
            let mut headers = vec![("host", "localhost")];
            headers.extend(given.iter().map(|given| ("authorization", *given)));
            check("127.0.0.1", Some("secret"), "/mcp", &headers)
        };
        assert_eq!((with(&["Bearer secret"]), with(&["bearer  secret"])), (Ok(()), Ok(())));
        for wrong in [
            &[][..],
            &[""],
            &["Bearer"],
            &["Bearer "],
            &["Bearer secre"],
            &["Bearer secrets"],
            &["Basic secret"],
            &["secret"],
            &["Bearer secret", "Bearer secret"],
        ] {
            assert_eq!(with(wrong), Err(Refused::Token), "{wrong:?}");
        }
    }
}
