//! Properties: what people write for one, and which of the account's properties is meant.
//!
//! `https://www.example.com/` and `sc-domain:example.com` are two properties with different figures, so one is never taken
//! for the other: what is not in the account's list is answered with the properties that come close.

use acp_core::{Call, Error, Resource, Result};
use acp_protocol::autocontext::ResourceSummary;
use url::{Host, Url};

use crate::api::{SearchConsole, SiteEntry};

/// Addresses of Search Console pages that belong to a property, as a JavaScript regular expression.
pub(crate) const URL_PATTERN: &str = r"^https://search\.google\.com/.*search-console.+resource_id=.";

const DOMAIN: &str = "sc-domain:";
/// Candidates that an error names.
const CANDIDATES: usize = 10;

/// The normal form of what may name a property: `sc-domain:` and a host, an address with `http` or `https`, or a host with
/// or without a path.
pub(crate) fn parse(id: &str) -> Result<Resource> {
    let text = id.trim().trim_matches(['"', '\'', '`', '<', '>']).trim();
    let text = from_console(text).unwrap_or_else(|| text.to_owned());
    normal(&text).map(|id| Resource { id, level: "property" }).ok_or_else(|| {
        Error::resource_not_found(
            "resource_id must be a Search Console property: a URL prefix such as https://www.example.com/, or sc-domain: and a \
             domain such as sc-domain:example.com. Call autocontext without arguments to list the available properties.",
        )
    })
}

/// The property in the address of a Search Console page.
fn from_console(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let console = url.host_str() == Some("search.google.com") && url.path().contains("/search-console");
    let property = url.query_pairs().find(|(name, _)| name == "resource_id").filter(|_| console)?;
    Some(property.1.into_owned())
}

fn normal(text: &str) -> Option<String> {
    // A property in the form in which it stands in the address of a request.
    let decoded;
    let text = match text.contains("%3A") || text.contains("%3a") {
        true if !text.contains("://") && !text.starts_with(DOMAIN) => {
            decoded = percent_encoding::percent_decode_str(text).decode_utf8().ok()?.into_owned();
            decoded.as_str()
        }
        _ => text,
    };
    if text.is_empty() || text.chars().any(|mark| mark.is_whitespace() || mark.is_control()) {
        return None;
    }
    if let Some(domain) = text.get(..DOMAIN.len()).filter(|start| start.eq_ignore_ascii_case(DOMAIN)) {
        let host = text[domain.len()..].trim_end_matches(['/', '.']);
        return Some(format!("{DOMAIN}{}", host_name(host)?));
    }
    if text.contains("://") {
        return address(text).map(String::from);
    }
    // Without a scheme: a host, perhaps with a path.
    let url = address(&format!("https://{text}"))?;
    let rest = &String::from(url)["https://".len()..];
    Some(rest.strip_suffix('/').filter(|host| !host.contains('/')).unwrap_or(rest).to_owned())
}

fn address(text: &str) -> Option<Url> {
    let mut url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let plain = url.username().is_empty() && url.password().is_none();
    host_name(url.host_str().filter(|_| plain)?)?;
    url.set_fragment(None);
    Some(url)
}

/// A name with a dot in it, in lower case and in the form in which the network knows it.
fn host_name(text: &str) -> Option<String> {
    match Host::parse(text).ok()? {
        Host::Domain(name) if name.contains('.') && name.split('.').all(|label| !label.is_empty()) => Some(name),
        _ => None,
    }
}

/// A property of the account, taken apart.
struct Known<'a> {
    entry: &'a SiteEntry,
    /// As [`parse`] writes it.
    normal: String,
}

impl<'a> Known<'a> {
    fn all(sites: &'a [SiteEntry]) -> Vec<Self> {
        let normal = |entry: &SiteEntry| parse(&entry.site_url).map_or_else(|_| entry.site_url.clone(), |site| site.id);
        sites.iter().map(|entry| Self { normal: normal(entry), entry }).collect()
    }

    fn domain(&self) -> Option<&str> {
        self.normal.strip_prefix(DOMAIN)
    }

    /// Host and path without the scheme.
    fn place(&self) -> &str {
        without_scheme(&self.normal)
    }

    /// Whether it holds what `wanted`, a property or a page, is about.
    fn covers(&self, wanted: &str) -> bool {
        match self.domain().is_some() || wanted.contains("://") {
            true => holds(&self.normal, wanted),
            false => !wanted.starts_with(DOMAIN) && format!("{wanted}/").starts_with(self.place()),
        }
    }
}

fn without_scheme(text: &str) -> &str {
    text.split_once("://").map_or(text, |(_, rest)| rest)
}

fn host_of(text: &str) -> &str {
    let text = without_scheme(text.strip_prefix(DOMAIN).unwrap_or(text));
    let end = text.find(['/', ':', '?']).unwrap_or(text.len());
    &text[..end]
}

/// A property's name is what it shares with its neighbours: `www.` and the scheme do not count.
fn bare(text: &str) -> &str {
    let host = host_of(text);
    host.strip_prefix("www.").unwrap_or(host)
}

/// What a name in its normal form stands for among the properties of an account.
#[derive(Debug, PartialEq)]
enum Meant<'a> {
    /// This property.
    One(&'a str),
    /// This property, which holds the page that was named.
    Page(&'a str),
    /// It is listed, but these credentials may not read it.
    Unverified,
    /// One of these, which one is not clear.
    Ambiguous(Vec<&'a str>),
    /// None; these come close.
    None(Vec<&'a str>),
}

fn meant<'a>(sites: &'a [SiteEntry], wanted: &str) -> Meant<'a> {
    let known = Known::all(sites);
    let id = |known: &Known<'a>| known.entry.site_url.as_str();
    let ids = |list: &[&Known<'a>]| list.iter().map(|known| id(known)).collect::<Vec<_>>();
    let exact = |wanted: &str| known.iter().find(|known| known.normal == wanted);
    let readable = |known: &&Known<'a>| !known.entry.is_unverified();
    let with_slash = format!("{wanted}/");
    let has_scheme = wanted.contains("://");
    if let Some(found) = exact(wanted).or_else(|| exact(&with_slash).filter(|_| has_scheme)) {
        return if found.entry.is_unverified() { Meant::Unverified } else { Meant::One(id(found)) };
    }
    let close = || {
        let close: Vec<_> = known
            .iter()
            .filter(readable)
            .filter(|known| bare(&known.normal) == bare(wanted) || known.covers(wanted))
            .collect();
        Meant::None(ids(&close))
    };
    if wanted.starts_with(DOMAIN) {
        return close();
    }
    let is_host = !without_scheme(wanted).trim_end_matches('/').contains('/');
    if is_host && has_scheme {
        // A root is a property of its own; a broader one has other figures.
        return close();
    }
    if is_host {
        let domain = format!("{DOMAIN}{wanted}");
        if let Some(found) = exact(&domain).filter(|found| !found.entry.is_unverified()) {
            return Meant::One(id(found));
        }
        let roots: Vec<_> = known.iter().filter(readable).filter(|known| known.place() == with_slash).collect();
        return match roots.as_slice() {
            [] => close(),
            [only] => Meant::One(id(only)),
            several => Meant::Ambiguous(ids(several)),
        };
    }
    // A page: the prefix that holds the most of its address, or else the longest domain.
    let covering: Vec<_> = known.iter().filter(readable).filter(|known| known.covers(wanted)).collect();
    let length = |known: &Known<'a>| match known.domain() {
        Some(domain) => (0, domain.len()),
        None => (1, known.place().len()),
    };
    let Some(longest) = covering.iter().map(|known| length(known)).max() else { return close() };
    let best: Vec<_> = covering.into_iter().filter(|known| length(known) == longest).collect();
    match best.as_slice() {
        [only] => Meant::Page(id(only)),
        several => Meant::Ambiguous(ids(several)),
    }
}

/// Other properties of the account that are about the same site: the same host, or one that holds it or is held by it.
pub(crate) fn neighbours<'a>(sites: &'a [SiteEntry], id: &str) -> Vec<&'a str> {
    let host = bare(id);
    let within =
        |inner: &str, outer: &str| inner == outer || inner.strip_suffix(outer).is_some_and(|rest| rest.ends_with('.'));
    let other = |site: &&SiteEntry| site.site_url != id && !site.is_unverified();
    let urls = sites.iter().filter(other).map(|site| site.site_url.as_str());
    urls.filter(|url| within(bare(url), host) || within(host, bare(url))).collect()
}

/// Whether a page, as a whole address, belongs to a property.
pub(crate) fn holds(property: &str, page: &str) -> bool {
    match property.strip_prefix(DOMAIN) {
        Some(domain) => {
            let host = host_of(page);
            host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
        }
        None => page.starts_with(property),
    }
}

/// The property of the account that a call is about.
pub(crate) async fn resolve(console: &SearchConsole, call: &Call, resource: &Resource) -> Result<Resource> {
    let sites = console.sites(call).await?;
    let wanted = &resource.id;
    let found = |id: &str| Ok(Resource { id: id.to_owned(), level: resource.level });
    let list = |ids: &[&str]| ids.iter().take(CANDIDATES).copied().collect::<Vec<_>>().join(", ");
    match meant(&sites, wanted) {
        Meant::One(id) => found(id),
        Meant::Page(id) => {
            call.warn(format!(
                "{} is a page of the property {id}: the figures are those of the whole property. For the page alone, filter page.",
                acp_google::clean(wanted, 200)
            ));
            found(id)
        }
        Meant::Unverified => Err(Error::resource_not_found(format!(
            "The property {wanted} is in the list of these credentials, but unverified: Google refuses to read it. Verify it in \
             Search Console or ask its owner for access."
        ))),
        Meant::Ambiguous(ids) => Err(Error::resource_not_found(format!(
            "resource_id could be several properties: {}. They have different figures; give one of them exactly as written here.",
            list(&ids)
        ))),
        Meant::None(ids) => {
            let next = match ids.as_slice() {
                [] => "Call autocontext without arguments to list the available properties.".to_owned(),
                ids => format!("Did you mean one of these? They have other figures: {}.", list(ids)),
            };
            Err(Error::resource_not_found(format!(
                "The property {} is not in the list of these credentials. {next}",
                acp_google::clean(wanted, 200)
            )))
        }
    }
}

/// Every property that the credentials list, in Google's order; those that can't be read are last and say so.
pub(crate) async fn list(console: &SearchConsole, call: &Call) -> Result<Vec<ResourceSummary>> {
    let sites = console.sites(call).await?;
    let (unverified, readable): (Vec<_>, Vec<_>) = sites.iter().partition(|site| site.is_unverified());
    let summary = |site: &&SiteEntry| {
        let domain = site.site_url.strip_prefix(DOMAIN);
        let kind = match domain {
            Some(_) => "Domain property: all subdomains and protocols together",
            None => "URL prefix",
        };
        let description = match site.permission_level.as_str() {
            "siteOwner" => format!("{kind}. Owner"),
            "siteFullUser" => format!("{kind}. Full user"),
            "siteRestrictedUser" => format!("{kind}. Restricted user"),
            "siteUnverifiedUser" => format!("{kind}. UNVERIFIED: no data can be read"),
            _ => kind.to_owned(),
        };
        let name = domain.unwrap_or_else(|| without_scheme(&site.site_url).trim_end_matches('/'));
        ResourceSummary { description: Some(description), ..ResourceSummary::new(&site.site_url, name) }
    };
    Ok(readable.iter().chain(&unverified).map(summary).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(sites: &[&str]) -> Vec<SiteEntry> {
        let entry = |site: &&str| match site.strip_prefix('!') {
            Some(site) => SiteEntry { site_url: site.to_owned(), permission_level: "siteUnverifiedUser".to_owned() },
            None => SiteEntry { site_url: (*site).to_owned(), permission_level: "siteOwner".to_owned() },
        };
        sites.iter().map(entry).collect()
    }

    #[test]
    fn names_have_a_normal_form() {
        for (id, normal) in [
            ("https://www.example.com/", "https://www.example.com/"),
            (" \"https://WWW.Example.com\" ", "https://www.example.com/"),
            ("https://www.example.com:443/Blog", "https://www.example.com/Blog"),
            ("https%3A%2F%2Fwww.example.com%2F", "https://www.example.com/"),
            ("sc-domain:Example.COM", "sc-domain:example.com"),
            ("SC-DOMAIN:example.com/", "sc-domain:example.com"),
            ("sc-domain%3Aexample.com", "sc-domain:example.com"),
            ("https://münchen.example/", "https://xn--mnchen-3ya.example/"),
            ("sc-domain:münchen.example", "sc-domain:xn--mnchen-3ya.example"),
            ("Example.com", "example.com"),
            ("www.example.com/blog/a", "www.example.com/blog/a"),
            ("https://www.example.com/caf%C3%A9#top", "https://www.example.com/caf%C3%A9"),
            (
                "https://search.google.com/search-console/performance/search-analytics?resource_id=sc-domain%3Aexample.com&hl=es",
                "sc-domain:example.com",
            ),
            (
                "https://search.google.com/u/1/search-console?resource_id=https%3A%2F%2Fwww.example.com%2F",
                "https://www.example.com/",
            ),
        ] {
            assert_eq!(parse(id).map(|site| site.id).as_deref(), Ok(normal), "{id}");
        }
    }

    #[test]
    fn what_can_not_be_a_property_is_explained() {
        for id in [
            "",
            "example",
            "sc-domain:",
            "sc-domain:localhost",
            "ftp://example.com/",
            "https://user:secret@example.com/",
            "https://127.0.0.1/",
            "two words.com",
            "https://",
            "../../etc/passwd",
            "G-ABC123",
        ] {
            let error = parse(id).unwrap_err();
            assert!(error.message().contains("sc-domain:example.com"), "{id}: {error}");
        }
    }

    #[test]
    fn a_name_finds_its_property() {
        let sites = account(&[
            "sc-domain:example.com",
            "https://www.example.com/",
            "https://www.example.com/blog/",
            "http://old.example.org/",
            "https://both.test/",
            "http://both.test/",
            "!https://closed.test/",
        ]);
        for (wanted, meaning) in [
            ("sc-domain:example.com", Meant::One("sc-domain:example.com")),
            ("https://www.example.com/", Meant::One("https://www.example.com/")),
            ("https://www.example.com/blog", Meant::One("https://www.example.com/blog/")),
            ("example.com", Meant::One("sc-domain:example.com")),
            ("www.example.com", Meant::One("https://www.example.com/")),
            ("old.example.org", Meant::One("http://old.example.org/")),
            ("https://www.example.com/blog/a?b=c", Meant::Page("https://www.example.com/blog/")),
            ("https://www.example.com/shop/", Meant::Page("https://www.example.com/")),
            ("https://shop.example.com/a", Meant::Page("sc-domain:example.com")),
            ("www.example.com/blog/a", Meant::Page("https://www.example.com/blog/")),
            ("both.test", Meant::Ambiguous(vec!["https://both.test/", "http://both.test/"])),
            ("both.test/a", Meant::Ambiguous(vec!["https://both.test/", "http://both.test/"])),
            ("https://closed.test/", Meant::Unverified),
            // Never another kind of property in silence.
            ("https://shop.example.com/", Meant::None(vec!["sc-domain:example.com"])),
            (
                "https://example.com/",
                Meant::None(vec!["sc-domain:example.com", "https://www.example.com/", "https://www.example.com/blog/"]),
            ),
            (
                "http://www.example.com/",
                Meant::None(vec!["sc-domain:example.com", "https://www.example.com/", "https://www.example.com/blog/"]),
            ),
            ("sc-domain:both.test", Meant::None(vec!["https://both.test/", "http://both.test/"])),
            ("https://notexample.com/a", Meant::None(vec![])),
            ("https://closed.test/a", Meant::None(vec![])),
        ] {
            let normal = parse(wanted).unwrap().id;
            assert_eq!(meant(&sites, &normal), meaning, "{wanted}");
        }
    }
}
