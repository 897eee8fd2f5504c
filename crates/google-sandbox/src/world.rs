//! The planted world: accounts, properties, and who may see which.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use jiff::tz::TimeZone;

use crate::analytics_data::columns::PropertyData;
use crate::clock;
use crate::events::{EventLog, HOME_ZONE};
use crate::identities::{Identity, Sight};

/// What is special about a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The whole event log.
    Main,
    /// Some of the users, without a peculiarity.
    Slice,
    /// No data at all.
    Empty,
    /// Revenue and costs are withheld from every identity: zeros, not errors.
    RevenueRestricted,
    /// Small rows are withheld.
    Thresholded,
    /// Answers carry `samplingMetadatas`.
    Sampled,
    /// More paths than Google keeps: the rest is rolled into `(other)`.
    HighCardinality,
    /// Millions of rows, computed from seed and index outside the event log.
    Bulk,
}

impl Kind {
    /// The name used in `/__sandbox/facts`.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Slice => "slice",
            Self::Empty => "empty",
            Self::RevenueRestricted => "revenue_restricted",
            Self::Thresholded => "thresholded",
            Self::Sampled => "sampled",
            Self::HighCardinality => "high_cardinality",
            Self::Bulk => "bulk",
        }
    }
}

/// An Analytics account.
pub(crate) struct Account {
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
}

/// The accounts.
pub(crate) const ACCOUNTS: [Account; 3] = [
    Account { id: "100200300", name: "Nordwind Group" },
    Account { id: "100200400", name: "Harbour Media" },
    Account { id: "100200500", name: "Archive" },
];

/// An Analytics property.
pub(crate) struct Property {
    pub(crate) id: String,
    /// Index into [`ACCOUNTS`].
    pub(crate) account: usize,
    pub(crate) name: String,
    pub(crate) zone: TimeZone,
    pub(crate) zone_name: &'static str,
    pub(crate) currency: &'static str,
    pub(crate) industry: &'static str,
    pub(crate) kind: Kind,
    /// Whether the limited account sees it.
    pub(crate) limited: bool,
    /// Its part of the event log.
    pub(crate) data: PropertyData,
}

/// Everything that exists.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) properties: Vec<Property>,
    log: Arc<EventLog>,
    /// Revenue of each day of the bulk property, once summed.
    pub(crate) bulk_cents: Mutex<HashMap<i32, u64>>,
}

/// Name, account, time zone, currency, kind, per cent of the users, seen by the limited account.
type Plan = (&'static str, usize, &'static str, &'static str, Kind, u64, bool);

const PLANS: [Plan; 13] = [
    ("Shop", 0, HOME_ZONE, "EUR", Kind::Main, 100, true),
    ("Blog", 0, HOME_ZONE, "EUR", Kind::Slice, 30, true),
    ("Shop US", 0, "America/Los_Angeles", "USD", Kind::Slice, 25, false),
    ("Shop Japan", 0, "Asia/Tokyo", "JPY", Kind::Slice, 15, false),
    ("New launch (no data yet)", 0, HOME_ZONE, "EUR", Kind::Empty, 0, false),
    ("Agency view (no revenue)", 0, HOME_ZONE, "EUR", Kind::RevenueRestricted, 35, false),
    ("Loyalty club", 0, HOME_ZONE, "EUR", Kind::Thresholded, 20, false),
    ("News portal", 1, "Europe/London", "GBP", Kind::Sampled, 60, false),
    ("Marketplace", 1, HOME_ZONE, "EUR", Kind::HighCardinality, 80, false),
    ("Data warehouse feed", 1, "Etc/UTC", "EUR", Kind::Bulk, 10, false),
    ("Podcast", 1, "America/New_York", "USD", Kind::Slice, 12, false),
    ("Tickets", 1, "Australia/Sydney", "AUD", Kind::Slice, 18, false),
    ("Jobs", 1, "Asia/Kolkata", "INR", Kind::Slice, 9, false),
];

/// Small properties that only fill the list, so that more than 25 exist.
const FILLERS: usize = 18;

impl World {
    /// Makes the event log and every property's view of it.
    pub(crate) fn new(seed: u64) -> Self {
        let today = clock::today(&clock::zone(HOME_ZONE));
        let log = Arc::new(EventLog::generate(seed, today));
        let filler_names: Vec<String> = (1..=FILLERS).map(|n| format!("Microsite {n:02}")).collect();
        let fillers = filler_names.iter().enumerate().map(|(n, name)| {
            let account = if n < 6 { 1 } else { 2 };
            (name.as_str(), account, HOME_ZONE, "EUR", Kind::Slice, 3 + n as u64 % 5, false)
        });
        let properties =
            PLANS.into_iter().chain(fillers).enumerate().map(|(n, plan)| property(n, plan, &log)).collect();
        Self { seed, properties, log, bulk_cents: Mutex::default() }
    }

    /// The event log.
    pub(crate) fn log(&self) -> &EventLog {
        &self.log
    }

    /// The property with that id.
    pub(crate) fn property(&self, id: &str) -> Option<&Property> {
        self.properties.iter().find(|p| p.id == id)
    }
}

fn property(
    number: usize,
    plan: (&str, usize, &'static str, &'static str, Kind, u64, bool),
    log: &Arc<EventLog>,
) -> Property {
    let (name, account, zone_name, currency, kind, share, limited) = plan;
    let zone = clock::zone(zone_name);
    Property {
        id: (310_000_001 + number * 1_013).to_string(),
        account,
        name: name.to_owned(),
        data: PropertyData::new(Arc::clone(log), zone.clone(), kind, share, number as u64),
        zone,
        zone_name,
        currency,
        industry: if account == 1 { "NEWS" } else { "HOME_AND_GARDEN" },
        kind,
        limited,
    }
}

impl Property {
    /// Whether its reporting attribution model is last click; the others' is data-driven.
    pub(crate) fn reports_last_click(&self) -> bool {
        self.kind == Kind::RevenueRestricted
    }

    /// Whether an identity may see this property.
    pub(crate) fn visible_to(&self, identity: &Identity) -> bool {
        match identity.sight {
            Sight::Full => true,
            Sight::Limited => self.limited,
        }
    }
}
