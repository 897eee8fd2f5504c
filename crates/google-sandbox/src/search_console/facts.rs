//! What was planted in Search Console, for `/__sandbox/facts`.

use serde_json::{Value, json};

use super::bulk;
use super::query;
use super::request::QueryRequest;
use super::switches::INSPECTIONS_A_DAY;
use super::{Permission, SearchConsole};
use crate::clock::date_of;
use crate::identities::{Identity, Sight};

/// The domain, and the part of it that Analytics measures.
const SHOP_SITES: [&str; 2] = ["sc-domain:nordwind.example", "https://www.nordwind.example/"];

impl SearchConsole {
    /// Each site with the permissions of the identities; null: not in their list.
    pub(crate) fn site_facts(&self) -> Value {
        let permission = |site: &super::Site, sight| {
            site.permission(&Identity { email: String::new(), sight }).map(Permission::name)
        };
        self.sites
            .iter()
            .map(|site| {
                json!({
                    "url": site.url,
                    "full": permission(site, Sight::Full),
                    "limited": permission(site, Sight::Limited),
                })
            })
            .collect()
    }

    /// The days, the limits, the bulk site, and totals of the shop.
    pub(crate) fn facts(&self) -> Value {
        let calendar = self.calendar();
        let last = calendar.last_final;
        json!({
            "time_zone": super::searches::ZONE,
            "today": date_of(calendar.today).to_string(),
            "oldest": date_of(calendar.oldest).to_string(),
            "last_final": date_of(last).to_string(),
            "first_incomplete": calendar.first_incomplete_day().to_string(),
            "inspections_a_day": INSPECTIONS_A_DAY,
            "bulk": {
                "site": "sc-domain:bulk.example",
                "sub_folder": "https://www.bulk.example/shelf-3/",
                "first": date_of(last - bulk::DAYS + 1).to_string(),
                "last": date_of(last).to_string(),
                "pairs_a_day": bulk::PAIRS,
                "shown_a_day": bulk::SHOWN,
                "on_every_day": bulk::HEAD,
                "queries_alone_a_day": bulk::QUERIES_ALONE,
            },
            "shop": SHOP_SITES.map(|url| self.totals(url, last - 27, last)),
        })
    }

    fn totals(&self, url: &str, first: i32, last: i32) -> Value {
        let (first, last) = (date_of(first).to_string(), date_of(last).to_string());
        let body = json!({"startDate": first, "endDate": last});
        let site = self.sites.iter().find(|site| site.url == url);
        let totals =
            QueryRequest::read(&body).ok().zip(site).map(|(request, site)| query::totals(self, site, &request));
        let (clicks, impressions) = totals.unwrap_or_default();
        json!({"site": url, "first": first, "last": last, "clicks": clicks, "impressions": impressions})
    }
}
