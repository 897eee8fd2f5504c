//! The sites of Search Console, who sees which, and what is special about each.

use serde_json::{Value, json};

use super::vocabulary::SHOP;
use crate::identities::{Identity, Sight};

/// What an identity may do with a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    Owner,
    Full,
    Restricted,
    /// Listed, but every other call is refused.
    Unverified,
}

impl Permission {
    /// The value of `permissionLevel`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Owner => "siteOwner",
            Self::Full => "siteFullUser",
            Self::Restricted => "siteRestrictedUser",
            Self::Unverified => "siteUnverifiedUser",
        }
    }
}

/// Where a site's data come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The searches of the domain whose shop the main Analytics property measures; the site's address says which pages.
    Domain,
    /// So many per cent of the shop's searches, as if for pages of another host. Every third day has none when `quiet`.
    Slice { percent: u64, quiet: bool },
    /// Rows computed from seed and number.
    Bulk,
    /// Nothing was ever shown.
    Nothing,
}

/// A site.
pub(crate) struct Site {
    /// As the API spells it.
    pub(crate) url: String,
    pub(crate) content: Content,
    /// `metadata` in snake case, as the documentation has it; the others use the wire's camel case.
    pub(crate) snake_metadata: bool,
    /// Grouped by date alone, days without data are rows of zeros; the others leave them out.
    pub(crate) zero_days: bool,
    /// For the full service account and the person.
    full: Option<Permission>,
    /// For the limited service account.
    limited: Option<Permission>,
}

const SLICE: Content = Content::Slice { percent: 30, quiet: false };
const QUIET: Content = Content::Slice { percent: 4, quiet: true };

/// Address, content, permission of the full and of the limited account.
const PLANS: [(&str, Content, Option<Permission>, Option<Permission>); 17] = [
    ("sc-domain:nordwind.example", Content::Domain, Some(Permission::Owner), None),
    ("https://www.nordwind.example/", Content::Domain, Some(Permission::Owner), Some(Permission::Full)),
    ("https://www.nordwind.example/blog/", Content::Domain, Some(Permission::Full), Some(Permission::Restricted)),
    ("https://help.nordwind.example/", Content::Domain, Some(Permission::Full), None),
    ("http://www.nordwind.example/", Content::Domain, Some(Permission::Owner), None),
    ("sc-domain:harbour.example", Content::Nothing, Some(Permission::Unverified), None),
    ("https://news.harbour.example/", SLICE, Some(Permission::Full), None),
    ("https://agency-client.example/", SLICE, Some(Permission::Restricted), None),
    ("sc-domain:xn--mbel-5qa.example", QUIET, Some(Permission::Full), None),
    ("https://amrum.example/", QUIET, Some(Permission::Owner), None),
    ("http://amrum.example/", Content::Nothing, Some(Permission::Owner), None),
    ("https://www.amrum.example/", QUIET, Some(Permission::Owner), None),
    ("https://new-launch.example/", Content::Nothing, Some(Permission::Owner), None),
    ("sc-domain:bulk.example", Content::Bulk, Some(Permission::Owner), None),
    ("https://www.bulk.example/shelf-3/", Content::Bulk, Some(Permission::Owner), None),
    ("https://limited-only.example/", SLICE, None, Some(Permission::Owner)),
    ("https://nobody.example/", SLICE, None, None),
];

/// Small sites that only fill the list, so that more than 25 exist.
const FILLERS: usize = 14;

/// All sites, in the order of `sites.list`.
pub(crate) fn all() -> Vec<Site> {
    let fillers = (1..=FILLERS).map(|number| {
        let url = format!("https://microsite-{number:02}.example/");
        site(&url, QUIET, Some(Permission::Full), None)
    });
    PLANS.iter().map(|(url, content, full, limited)| site(url, *content, *full, *limited)).chain(fillers).collect()
}

fn site(url: &str, content: Content, full: Option<Permission>, limited: Option<Permission>) -> Site {
    Site {
        url: url.to_owned(),
        content,
        snake_metadata: url.ends_with("/blog/"),
        zero_days: url.starts_with("https://help."),
        full,
        limited,
    }
}

impl Site {
    /// What an identity may do here; `None`: the site isn't in its list.
    pub(crate) fn permission(&self, identity: &Identity) -> Option<Permission> {
        match identity.sight {
            Sight::Full => self.full,
            Sight::Limited => self.limited,
        }
    }

    /// Whether a page belongs to the site: the whole domain with every protocol, or exactly this prefix.
    pub(crate) fn contains(&self, page: &str) -> bool {
        let Some(domain) = self.url.strip_prefix("sc-domain:") else {
            return page.starts_with(&self.url);
        };
        let host = page
            .strip_prefix("https://")
            .or_else(|| page.strip_prefix("http://"))
            .and_then(|rest| rest.split(['/', '?', '#']).next());
        host.is_some_and(|host| host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    }

    /// What stands before the path in the address of a page.
    pub(crate) fn origin(&self) -> String {
        match (self.content, self.url.strip_prefix("sc-domain:")) {
            (Content::Domain, _) => SHOP.to_owned(),
            (_, Some(domain)) => format!("https://www.{domain}"),
            (_, None) => self.url.split('/').take(3).collect::<Vec<_>>().join("/"),
        }
    }

    /// An entry of `sites.list`.
    pub(crate) fn entry(&self, permission: Permission) -> Value {
        json!({"siteUrl": self.url, "permissionLevel": permission.name()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_domain_and_of_a_prefix() {
        let sites = all();
        let contains = |url: &str, page: &str| sites.iter().find(|site| site.url == url).unwrap().contains(page);
        let domain = "sc-domain:nordwind.example";
        for page in ["https://www.nordwind.example/a", "http://nordwind.example", "https://help.nordwind.example/?q=1"]
        {
            assert!(contains(domain, page), "{page}");
        }
        for page in ["https://othernordwind.example/", "https://nordwind.example.org/", "nordwind.example"] {
            assert!(!contains(domain, page), "{page}");
        }
        assert!(contains("https://www.nordwind.example/blog/", "https://www.nordwind.example/blog/x"));
        assert!(!contains("https://www.nordwind.example/blog/", "https://www.nordwind.example/blog"));
        assert!(!contains("http://www.nordwind.example/", "https://www.nordwind.example/"));
    }
}
