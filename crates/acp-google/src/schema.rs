//! The form of the credentials, the same for every Google service but for its scopes.

use acp_protocol::setup::{CredentialsSchema, PropertyFormat, PropertyType, SetupLogin, SetupProperty, SetupSchema};

/// The `credentials_schema` of a connector that needs `scopes`: a pasted key, pasted tokens, the host's Google
/// login, and the host's own account. Its order is the order in which a host offers them.
pub fn credentials_schema(scopes: &[&str]) -> CredentialsSchema {
    CredentialsSchema::Variants {
        one_of: vec![service_account(), tokens(), google_login(scopes), portal_login(scopes)],
    }
}

fn service_account() -> SetupSchema {
    let key = SetupProperty {
        description: Some(
            "Paste the full JSON key file (includes client_email and private_key). The authorized_user JSON that \
             `gcloud auth application-default login` writes is accepted too."
                .to_owned(),
        ),
        content_media_type: Some("application/json".to_owned()),
        ..secret("Service account JSON")
    };
    variant("Service account", "service_account", [("service_account", key)], &["service_account"])
}

fn tokens() -> SetupSchema {
    let refresh = SetupProperty {
        description: Some(
            "Renews the access token. Needs the client id and the client secret it was made with.".to_owned(),
        ),
        ..secret("Refresh token")
    };
    let fields = [
        ("access_token", secret("Access token")),
        ("refresh_token", refresh),
        ("client_id", text("OAuth client id")),
        ("client_secret", secret("OAuth client secret")),
    ];
    variant("OAuth tokens", "oauth", fields, &["access_token"])
}

/// A login that returns no refresh token would stop working within the hour, so what a refresh needs is required;
/// the access token is not, because it can be made from it.
fn google_login(scopes: &[&str]) -> SetupSchema {
    let expiry = SetupProperty {
        property_type: PropertyType::Number,
        title: Some("Access token expiry (milliseconds since 1970)".to_owned()),
        ..SetupProperty::default()
    };
    let email = SetupProperty { format: Some(PropertyFormat::Email), ..text("Account") };
    let fields = [
        ("client_id", text("OAuth client id")),
        ("client_secret", secret("OAuth client secret")),
        ("refresh_token", secret("Refresh token")),
        ("access_token", secret("Access token")),
        ("expiry_date", expiry),
        ("email", email),
    ]
    .map(|(name, field)| (name, filled(field)));
    SetupSchema {
        login: Some(login("google", scopes)),
        ..variant("Google login", "google_oauth", fields, &["client_id", "client_secret", "refresh_token"])
    }
}

fn portal_login(scopes: &[&str]) -> SetupSchema {
    let fields =
        [("email", text("Account")), ("scopes", secret("Authorization"))].map(|(name, field)| (name, filled(field)));
    SetupSchema {
        login: Some(login("analytika", scopes)),
        ..variant("Your Analytika account", "portal_oauth", fields, &["email", "scopes"])
    }
}

fn variant<const N: usize>(
    title: &str,
    constant: &str,
    fields: [(&str, SetupProperty); N],
    required: &[&str],
) -> SetupSchema {
    let kind = SetupProperty { constant: Some(constant.into()), ..SetupProperty::default() };
    SetupSchema {
        title: Some(title.to_owned()),
        properties: std::iter::once(("type", kind))
            .chain(fields)
            .map(|(name, property)| (name.to_owned(), property))
            .collect(),
        required: Some(std::iter::once("type").chain(required.iter().copied()).map(str::to_owned).collect()),
        ..SetupSchema::default()
    }
}

fn login(provider: &str, scopes: &[&str]) -> SetupLogin {
    SetupLogin { provider: provider.to_owned(), scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect() }
}

fn text(title: &str) -> SetupProperty {
    SetupProperty { title: Some(title.to_owned()), ..SetupProperty::default() }
}

fn secret(title: &str) -> SetupProperty {
    SetupProperty { write_only: true, ..text(title) }
}

fn filled(property: SetupProperty) -> SetupProperty {
    SetupProperty { filled: true, ..property }
}

#[cfg(test)]
mod tests {
    use acp_protocol::setup::{SchemaPlace, validate};
    use serde_json::json;

    use super::*;

    const SCOPE: &str = "https://www.googleapis.com/auth/analytics.readonly";

    #[test]
    fn the_schema_follows_the_rules_of_setup_schemas() {
        let schema = serde_json::to_value(credentials_schema(&[SCOPE])).unwrap();
        assert_eq!(validate(&schema, SchemaPlace::Credentials), Vec::<String>::new());
    }

    #[test]
    fn variants_come_in_order_and_secrets_are_write_only() {
        let schema = credentials_schema(&[SCOPE]);
        let titles: Vec<_> = schema.variants().iter().filter_map(|variant| variant.title.as_deref()).collect();
        assert_eq!(titles, ["Service account", "OAuth tokens", "Google login", "Your Analytika account"]);
        for variant in schema.variants() {
            for (name, field) in &variant.properties {
                let secret = ["service_account", "access_token", "refresh_token", "client_secret", "scopes"];
                assert_eq!(field.write_only, secret.contains(&name.as_str()), "{name}");
            }
        }
    }

    #[test]
    fn the_portal_variant_is_the_one_of_the_specification() {
        let schema = serde_json::to_value(credentials_schema(&[SCOPE])).unwrap();
        assert_eq!(
            schema["oneOf"][3],
            json!({
                "title": "Your Analytika account",
                "type": "object",
                "x-acp-login": {"provider": "analytika", "scopes": [SCOPE]},
                "properties": {
                    "type": {"type": "string", "const": "portal_oauth"},
                    "email": {"type": "string", "title": "Account", "x-acp-filled": true},
                    "scopes": {"type": "string", "title": "Authorization", "writeOnly": true, "x-acp-filled": true},
                },
                "required": ["type", "email", "scopes"],
            })
        );
    }

    #[test]
    fn values_that_hosts_send_fit() {
        let schema = credentials_schema(&[SCOPE]);
        for values in [
            json!({"type": "service_account", "service_account": "{}"}),
            json!({"type": "oauth", "access_token": "t"}),
            json!({"type": "oauth", "access_token": "t", "expiry_date": 1, "email": "a@b.c"}),
            json!({"type": "google_oauth", "client_id": "i", "client_secret": "s", "refresh_token": "r"}),
        ] {
            assert_eq!(schema.check(values.as_object().unwrap()), Ok(()), "{values}");
        }
    }
}
