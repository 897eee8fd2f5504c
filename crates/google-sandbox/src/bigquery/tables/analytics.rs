//! The export of the main Analytics property: one table a day, computed from the same events as its reports.
//!
//! Daily tables reach to yesterday, with a gap; today is in `events_intraday_`, and `events_fresh_` holds yesterday and today
//! once more. So `events_*` counts these days twice or three times, as the real export does.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::RowsTable;
use crate::analytics_data::columns::{Column, PropertyData};
use crate::bigquery::catalogue::{Dataset, Entry, PROJECT};
use crate::bigquery::schema::{Field, Type};
use crate::bigquery::sql::Row;
use crate::bigquery::value::Value;
use crate::clock::{self, MICROS, date_of};
use crate::events::{
    DEVICES, EVENT_NAMES, Event, FORMS, HISTORY_DAYS, NOT_SET, PLACES, PLANS, TIERS, TRAFFIC, Traffic, mix, name,
};
use crate::world::{Kind, Property, World};

/// The day without a table is so many days ago.
const GAP_DAYS_AGO: i32 = 45;
/// Tables older than this lack the columns that Google added later.
const OLD_DAYS_AGO: i32 = 90;
/// Days with a table of pseudonymous users.
const USER_DAYS: i32 = 30;

const HOST: &str = "www.nordwind.example";

/// The name of the data set of a property.
pub(crate) fn dataset_id(property: &Property) -> String {
    format!("analytics_{}", property.id)
}

/// The main property.
pub(crate) fn main_property(world: &World) -> Option<&Property> {
    world.properties.iter().find(|property| property.kind == Kind::Main)
}

/// First and last day with a daily table, and the day between them without one.
pub(crate) fn days(today: i32) -> (i32, i32, i32) {
    (today - HISTORY_DAYS + 1, today - 1, today - GAP_DAYS_AGO)
}

/// The data set, as it is on a day.
pub(crate) fn dataset(world: &Arc<World>, today: i32) -> Dataset {
    let id = main_property(world).map(dataset_id).unwrap_or_default();
    let export = Arc::new(Export { world: Arc::clone(world), sessions: OnceLock::new() });
    let mut dataset = Dataset::new(PROJECT, &id, "EU", "Export of the Analytics property Shop");
    let (first, last, gap) = days(today);
    let suffix = |day: i32| date_of(day).to_string().replace('-', "");
    // Google rewrites a daily table for up to three days.
    let modified = |day: i32| (i64::from((day + 3).min(today)) * 86_400 + 4 * 3_600) * 1_000;
    for day in (first..=last).filter(|day| *day != gap) {
        let old = day < today - OLD_DAYS_AGO;
        dataset.add(events(&export, &dataset, &format!("events_{}", suffix(day)), day, old, modified(day)));
    }
    for (family, days) in [("events_intraday_", today..=today), ("events_fresh_", today - 1..=today)] {
        for day in days {
            let name = format!("{family}{}", suffix(day));
            dataset.add(events(&export, &dataset, &name, day, false, modified(day)));
        }
    }
    for day in today - USER_DAYS..=last {
        let id = dataset.table_id(&format!("pseudonymous_users_{}", suffix(day)));
        let export = Arc::clone(&export);
        let table = RowsTable::new(id, user_schema(), move || export.users(day));
        dataset.add(Entry::new(table, modified(day)));
    }
    dataset
}

fn events(export: &Arc<Export>, dataset: &Dataset, name: &str, day: i32, old: bool, modified: i64) -> Entry {
    let fields = event_schema(old);
    let (columns, rows, count) = (fields.clone(), Arc::clone(export), Arc::clone(export));
    let table = RowsTable::new(dataset.table_id(name), fields, move || rows.events(&columns, day))
        .counted(move || count.data().map_or(0, |data| day_events(data, day).len() as u64));
    Entry::new(table, modified)
}

/// What the tables are made from.
struct Export {
    world: Arc<World>,
    sessions: OnceLock<Sessions>,
}

impl Export {
    fn data(&self) -> Option<&PropertyData> {
        main_property(&self.world).map(|main| &main.data)
    }

    fn sessions(&self, data: &PropertyData) -> &Sessions {
        self.sessions.get_or_init(|| Sessions::of(data))
    }
}

fn text(name: &str) -> Field {
    Field::new(name, Type::String)
}

fn int(name: &str) -> Field {
    Field::new(name, Type::Int64)
}

fn float(name: &str) -> Field {
    Field::new(name, Type::Float64)
}

fn record(name: &str, fields: Vec<Field>) -> Field {
    Field::new(name, Type::record(fields))
}

fn repeated(name: &str, fields: Vec<Field>) -> Field {
    Field::new(name, Type::record(fields).array())
}

fn texts(names: &[&str]) -> Vec<Field> {
    names.iter().map(|name| text(name)).collect()
}

fn values() -> Vec<Field> {
    vec![text("string_value"), int("int_value"), float("float_value"), float("double_value")]
}

fn user_values() -> Vec<Field> {
    values().into_iter().chain([int("set_timestamp_micros")]).collect()
}

fn device() -> Field {
    let mut fields = texts(&[
        "category",
        "mobile_brand_name",
        "mobile_model_name",
        "mobile_marketing_name",
        "mobile_os_hardware_model",
        "operating_system",
        "operating_system_version",
        "vendor_id",
        "advertising_id",
        "language",
        "is_limited_ad_tracking",
    ]);
    fields.push(int("time_zone_offset_seconds"));
    fields.extend(texts(&["browser", "browser_version"]));
    fields.push(record("web_info", texts(&["browser", "browser_version", "hostname"])));
    record("device", fields)
}

fn geo() -> Field {
    record("geo", texts(&["city", "country", "continent", "region", "sub_continent", "metro"]))
}

fn privacy() -> Field {
    record("privacy_info", texts(&["analytics_storage", "ads_storage", "uses_transient_token"]))
}

/// The columns of an event table; old tables end before the columns that were added later.
fn event_schema(old: bool) -> Vec<Field> {
    let mut items = texts(&[
        "item_id",
        "item_name",
        "item_brand",
        "item_variant",
        "item_category",
        "item_category2",
        "item_category3",
        "item_category4",
        "item_category5",
    ]);
    items.extend([float("price_in_usd"), float("price"), int("quantity")]);
    items.extend(
        ["item_revenue_in_usd", "item_revenue", "item_refund_in_usd", "item_refund"].iter().map(|name| float(name)),
    );
    items.extend(texts(&[
        "coupon",
        "affiliation",
        "location_id",
        "item_list_id",
        "item_list_name",
        "item_list_index",
        "promotion_id",
        "promotion_name",
        "creative_name",
        "creative_slot",
    ]));
    items.push(repeated("item_params", vec![text("key"), record("value", values())]));
    let mut ecommerce = vec![int("total_item_quantity")];
    ecommerce.extend(
        [
            "purchase_revenue_in_usd",
            "purchase_revenue",
            "refund_value_in_usd",
            "refund_value",
            "shipping_value_in_usd",
            "shipping_value",
            "tax_value_in_usd",
            "tax_value",
        ]
        .iter()
        .map(|name| float(name)),
    );
    ecommerce.extend([int("unique_items"), text("transaction_id")]);
    let mut fields = vec![
        text("event_date"),
        int("event_timestamp"),
        text("event_name"),
        repeated("event_params", vec![text("key"), record("value", values())]),
        int("event_previous_timestamp"),
        float("event_value_in_usd"),
        int("event_bundle_sequence_id"),
        int("event_server_timestamp_offset"),
        text("user_id"),
        text("user_pseudo_id"),
        privacy(),
        repeated("user_properties", vec![text("key"), record("value", user_values())]),
        int("user_first_touch_timestamp"),
        record("user_ltv", vec![float("revenue"), text("currency")]),
        device(),
        geo(),
        record("app_info", texts(&["id", "version", "install_store", "firebase_app_id", "install_source"])),
        record("traffic_source", texts(&["name", "medium", "source"])),
        text("stream_id"),
        text("platform"),
        record("event_dimensions", texts(&["hostname"])),
        record("ecommerce", ecommerce),
        repeated("items", items),
    ];
    if !old {
        let campaign = ["campaign_id", "campaign_name", "source", "medium"];
        fields.extend([
            record(
                "collected_traffic_source",
                texts(&[
                    "manual_campaign_id",
                    "manual_campaign_name",
                    "manual_source",
                    "manual_medium",
                    "manual_term",
                    "manual_content",
                    "gclid",
                    "dclid",
                    "srsltid",
                ]),
            ),
            Field::new("is_active_user", Type::Bool),
            int("batch_event_index"),
            int("batch_page_id"),
            int("batch_ordering_id"),
            record(
                "session_traffic_source_last_click",
                vec![
                    record("manual_campaign", texts(&campaign)),
                    record(
                        "google_ads_campaign",
                        texts(&["customer_id", "account_name", "campaign_id", "campaign_name"]),
                    ),
                    record(
                        "cross_channel_campaign",
                        texts(&[
                            "campaign_id",
                            "campaign_name",
                            "source",
                            "medium",
                            "default_channel_group",
                            "primary_channel_group",
                        ]),
                    ),
                ],
            ),
        ]);
    }
    fields
}

/// A record with these fields set, and the others null or without elements.
fn filled(kind: &Type, mut set: Vec<(&str, Value)>) -> Value {
    let Type::Struct(fields) = kind.element().unwrap_or(kind) else {
        return Value::Null;
    };
    Value::record(row_of(fields, &mut set))
}

fn row_of(fields: &[Field], set: &mut Vec<(&str, Value)>) -> Row {
    let row = fields
        .iter()
        .map(|field| match set.iter().position(|(name, _)| *name == &*field.name) {
            Some(index) => set.swap_remove(index).1,
            None if field.mode() == "REPEATED" => Value::array([]),
            None => Value::Null,
        })
        .collect();
    debug_assert!(set.is_empty(), "no such field: {:?}", set.first().map(|(name, _)| name));
    row
}

/// The pseudonymous id of a user.
fn pseudo_id(user: u32) -> Value {
    let luck = mix(0x9A5E_0D01, u64::from(user));
    Value::from(format!("{}.{}", luck % 2_000_000_000, 1_700_000_000 + (luck >> 32) % 90_000_000))
}

/// What the sessions of a property have in common, for all its tables.
struct Sessions {
    /// Microseconds of the first event of each session.
    starts: Vec<i64>,
    /// Which visit of its user each session is.
    numbers: Vec<i64>,
    /// Microseconds of the first event of each user.
    first_touch: Vec<i64>,
}

impl Sessions {
    fn of(data: &PropertyData) -> Self {
        let log = &data.log;
        let mut sessions = Self {
            starts: vec![0; log.sessions.len()],
            numbers: vec![0; log.sessions.len()],
            first_touch: vec![0; log.users.len()],
        };
        let mut visits = vec![0_i64; log.users.len()];
        for event in &data.rows().events {
            let index = event.session as usize;
            if sessions.starts[index] != 0 {
                continue;
            }
            let session = log.session(event);
            let user = session.user as usize;
            sessions.starts[index] = event.micros;
            // A user whose first visit came before the log has been here at least once.
            visits[user] = if session.new_user { 1 } else { visits[user].max(1) + 1 };
            sessions.numbers[index] = visits[user];
            if sessions.first_touch[user] == 0 {
                sessions.first_touch[user] = event.micros;
            }
        }
        sessions
    }
}

/// The events of a local day, as far as the clock has come.
fn day_events(data: &PropertyData, day: i32) -> Range<usize> {
    let rows = data.rows();
    let start = rows.days.partition_point(|other| *other < day);
    let end = rows.days.partition_point(|other| *other <= day);
    let now = clock::now_micros();
    let past = rows.events.partition_point(|event| event.micros <= now);
    start.min(past)..end.min(past)
}

/// The record of each device, place and origin: events share them.
struct Shared {
    devices: Vec<Value>,
    places: Vec<Value>,
    first_origins: Vec<Value>,
    session_origins: Vec<Value>,
    privacy: Value,
    hostname: Value,
}

impl Shared {
    fn new(fields: &[Field]) -> Self {
        let kind = |name: &str| fields.iter().find(|field| &*field.name == name).map(|field| field.kind.clone());
        let make = |name: &str, set: Vec<(&str, Value)>| kind(name).map_or(Value::Null, |kind| filled(&kind, set));
        Self {
            devices: DEVICES.iter().map(|device| device_record(&kind("device"), device)).collect(),
            places: PLACES
                .iter()
                .map(|place| {
                    let continent = continent(place.country_id);
                    let known = |text: &str| if text == NOT_SET { Value::from("") } else { Value::from(text) };
                    make(
                        "geo",
                        vec![
                            ("city", known(place.city)),
                            ("country", known(place.country)),
                            ("region", known(place.region)),
                            ("continent", Value::from(continent)),
                            ("metro", Value::from(NOT_SET)),
                        ],
                    )
                })
                .collect(),
            first_origins: TRAFFIC
                .iter()
                .map(|origin| {
                    let set = vec![
                        ("name", Value::from(origin.campaign)),
                        ("medium", Value::from(origin.medium)),
                        ("source", Value::from(origin.source)),
                    ];
                    make("traffic_source", set)
                })
                .collect(),
            session_origins: TRAFFIC
                .iter()
                .map(|origin| session_origin(&kind("session_traffic_source_last_click"), origin))
                .collect(),
            privacy: make(
                "privacy_info",
                vec![
                    ("analytics_storage", Value::from("Yes")),
                    ("ads_storage", Value::from("Yes")),
                    ("uses_transient_token", Value::from("No")),
                ],
            ),
            hostname: make("event_dimensions", vec![("hostname", Value::from(HOST))]),
        }
    }
}

fn device_record(kind: &Option<Type>, device: &(&str, &str, &str, u32)) -> Value {
    let Some(kind) = kind else {
        return Value::Null;
    };
    let web = Value::record([Value::from(device.1), Value::Null, Value::from(HOST)]);
    filled(
        kind,
        vec![
            ("category", Value::from(device.0)),
            ("operating_system", Value::from(device.2)),
            ("language", Value::from("de-de")),
            ("is_limited_ad_tracking", Value::from("No")),
            ("web_info", web),
        ],
    )
}

fn session_origin(kind: &Option<Type>, origin: &Traffic) -> Value {
    let Some(Type::Struct(fields)) = kind else {
        return Value::Null;
    };
    let part = |name: &str, set: Vec<(&str, Value)>| {
        fields.iter().find(|field| &*field.name == name).map_or(Value::Null, |field| filled(&field.kind, set))
    };
    let campaign = |mut more: Vec<(&'static str, Value)>| {
        more.extend([
            ("campaign_name", Value::from(origin.campaign)),
            ("source", Value::from(origin.source)),
            ("medium", Value::from(origin.medium)),
        ]);
        more
    };
    let channel = || Value::from(origin.channel);
    Value::record([
        part("manual_campaign", campaign(Vec::new())),
        Value::Null,
        part(
            "cross_channel_campaign",
            campaign(vec![("default_channel_group", channel()), ("primary_channel_group", channel())]),
        ),
    ])
}

fn continent(country_id: &str) -> &'static str {
    match country_id {
        "US" | "BR" => "Americas",
        "JP" => "Asia",
        NOT_SET => "",
        _ => "Europe",
    }
}

/// An event parameter: a text, a whole number or a number, each in a field of its own.
fn parameter(key: &str, value: Value) -> Value {
    let mut cells = [const { Value::Null }; 4];
    let place = match value {
        Value::Int64(_) => 1,
        Value::Float64(_) => 3,
        _ => 0,
    };
    cells[place] = value;
    Value::record([Value::from(key), Value::record(cells)])
}

impl Export {
    /// One row for each event of a day.
    fn events(&self, fields: &[Field], day: i32) -> Vec<Row> {
        let Some(main) = main_property(&self.world) else {
            return Vec::new();
        };
        let data = &main.data;
        let shared = Shared::new(fields);
        let paths = data.column("pagePathPlusQueryString");
        let rows = data.rows();
        day_events(data, day)
            .map(|index| {
                let event = &rows.events[index];
                event_row(main, fields, self.sessions(data), &shared, (event, day), path(&paths, index))
            })
            .collect()
    }

    /// One row for each user who was there on that day.
    fn users(&self, day: i32) -> Vec<Row> {
        let Some(data) = self.data() else {
            return Vec::new();
        };
        let fields = user_schema();
        let sessions = self.sessions(data);
        let shared = Shared::new(&fields);
        let events = &data.rows().events[day_events(data, day)];
        let users: BTreeSet<u32> = events.iter().map(|event| data.log.session(event).user).collect();
        let date = Value::from(date_of(day).to_string().replace('-', ""));
        users
            .into_iter()
            .filter_map(|user| {
                let last = events.iter().rev().find(|event| data.log.session(event).user == user)?;
                let session = data.log.session(last);
                let first = sessions.first_touch[user as usize];
                let info = Value::record([Value::Int64(last.micros), Value::Int64(first), Value::Null]);
                let mut set = vec![
                    ("pseudo_user_id", pseudo_id(user)),
                    ("stream_id", Value::from("4001001")),
                    ("user_info", info),
                    ("device", shared.devices[usize::from(session.device)].clone()),
                    ("geo", shared.places[usize::from(session.place)].clone()),
                    ("privacy_info", shared.privacy.clone()),
                    ("occurrence_date", date.clone()),
                    ("last_updated_date", date.clone()),
                ];
                Some(row_of(&fields, &mut set))
            })
            .collect()
    }
}

fn path(paths: &Column, index: usize) -> &str {
    &paths.values[paths.codes[index] as usize]
}

fn event_row(
    main: &Property,
    fields: &[Field],
    sessions: &Sessions,
    shared: &Shared,
    (event, day): (&Event, i32),
    path: &str,
) -> Row {
    let log = &main.data.log;
    let session = log.session(event);
    let user = log.user(session);
    let number = event.session as usize;
    let sequence = mix(u64::from(event.session), event.micros.unsigned_abs());
    let mut set = vec![
        ("event_date", Value::from(date_of(day).to_string().replace('-', ""))),
        ("event_timestamp", Value::Int64(event.micros)),
        ("event_name", Value::from(EVENT_NAMES[usize::from(event.name)])),
        ("event_params", parameters(main, sessions, event, path)),
        ("event_bundle_sequence_id", Value::Int64((sequence >> 32) as i64)),
        ("user_pseudo_id", pseudo_id(session.user)),
        ("privacy_info", shared.privacy.clone()),
        ("user_first_touch_timestamp", Value::Int64(sessions.first_touch[session.user as usize])),
        ("device", shared.devices[usize::from(session.device)].clone()),
        ("geo", shared.places[usize::from(session.place)].clone()),
        ("traffic_source", shared.first_origins[usize::from(user.first_traffic)].clone()),
        ("stream_id", Value::from("4001001")),
        ("platform", Value::from("WEB")),
        ("event_dimensions", shared.hostname.clone()),
    ];
    if user.tier != 0 {
        let tier = Value::from(TIERS[usize::from(user.tier)]);
        let since = Value::Int64(sessions.first_touch[session.user as usize]);
        let value = Value::record([tier, Value::Null, Value::Null, Value::Null, since]);
        set.push(("user_properties", Value::array([Value::record([Value::from("tier"), value])])));
    }
    let kind = |name: &str| fields.iter().find(|field| &*field.name == name).map(|field| &field.kind);
    if let (Some(kind), Some(item)) = (kind("items"), usize::from(event.item).checked_sub(1)) {
        let item = &log.items[item];
        let mut cells = vec![
            ("item_id", Value::from(item.id.as_str())),
            ("item_name", Value::from(item.name.as_str())),
            ("item_brand", Value::from("Nordwind")),
            ("price", Value::Float64(f64::from(item.price_cents) / 100.0)),
            ("quantity", Value::Int64(i64::from(event.quantity))),
        ];
        if event.name == name::PURCHASE {
            cells.push(("item_revenue", Value::Float64(f64::from(event.cents) / 100.0)));
        }
        set.push(("items", Value::array([filled(kind, cells)])));
    }
    if let (Some(kind), true) = (kind("ecommerce"), event.name == name::PURCHASE) {
        let cells = vec![
            ("total_item_quantity", Value::Int64(i64::from(event.quantity))),
            ("purchase_revenue", Value::Float64(f64::from(event.cents) / 100.0)),
            ("unique_items", Value::Int64(1)),
            ("transaction_id", Value::from(format!("T-{}", event.transaction))),
        ];
        set.push(("ecommerce", filled(kind, cells)));
    }
    if let Some(kind) = kind("collected_traffic_source") {
        let origin = &TRAFFIC[usize::from(session.traffic)];
        if event.landing && !origin.campaign.starts_with('(') {
            let cells = vec![
                ("manual_campaign_name", Value::from(origin.campaign)),
                ("manual_source", Value::from(origin.source)),
                ("manual_medium", Value::from(origin.medium)),
            ];
            set.push(("collected_traffic_source", filled(kind, cells)));
        }
        set.extend([
            ("is_active_user", Value::Bool(session.engaged || session.new_user)),
            ("batch_event_index", Value::Int64((event.micros - sessions.starts[number]) / 1_000 % 1_000)),
            ("session_traffic_source_last_click", shared.session_origins[usize::from(session.traffic)].clone()),
        ]);
    }
    row_of(fields, &mut set)
}

fn parameters(main: &Property, sessions: &Sessions, event: &Event, path: &str) -> Value {
    let log = &main.data.log;
    let session = log.session(event);
    let number = event.session as usize;
    let mut list = vec![
        parameter("ga_session_id", Value::Int64(sessions.starts[number] / MICROS)),
        parameter("ga_session_number", Value::Int64(sessions.numbers[number])),
        parameter("page_location", Value::from(format!("https://{HOST}{path}"))),
    ];
    let title = &log.pages[usize::from(event.page)].title;
    if !title.is_empty() {
        list.push(parameter("page_title", Value::from(title.as_str())));
    }
    // A text in most events and a number in the first one of a session, as in the real export.
    list.push(match event.name {
        name::SESSION_START => parameter("session_engaged", Value::Int64(0)),
        _ => parameter("session_engaged", Value::from(if session.engaged { "1" } else { "0" })),
    });
    if event.engagement_seconds > 0 {
        list.push(parameter("engagement_time_msec", Value::Int64(i64::from(event.engagement_seconds) * 1_000)));
    }
    if event.landing {
        list.push(parameter("entrances", Value::Int64(1)));
        let origin = &TRAFFIC[usize::from(session.traffic)];
        if !origin.campaign.starts_with('(') {
            list.push(parameter("campaign", Value::from(origin.campaign)));
            list.push(parameter("source", Value::from(origin.source)));
            list.push(parameter("medium", Value::from(origin.medium)));
        }
    }
    if event.score > 0 {
        list.push(parameter("score", Value::Int64(i64::from(event.score))));
    }
    if event.name == name::PLAN_VIEW {
        let plan = log.user(session).plan;
        list.push(parameter("plan", Value::from(PLANS[usize::from(plan)])));
    }
    if event.form != 0 {
        list.push(parameter("form_name", Value::from(FORMS[usize::from(event.form)])));
    }
    if event.name == name::PURCHASE {
        list.push(parameter("transaction_id", Value::from(format!("T-{}", event.transaction))));
        list.push(parameter("currency", Value::from(main.currency)));
        // Whole amounts come as whole numbers.
        list.push(match event.cents % 100 {
            0 => parameter("value", Value::Int64(i64::from(event.cents / 100))),
            _ => parameter("value", Value::Float64(f64::from(event.cents) / 100.0)),
        });
    }
    Value::array(list)
}

fn user_schema() -> Vec<Field> {
    vec![
        text("pseudo_user_id"),
        text("stream_id"),
        record(
            "user_info",
            vec![
                int("last_active_timestamp_micros"),
                int("user_first_touch_timestamp_micros"),
                text("first_purchase_date"),
            ],
        ),
        device(),
        geo(),
        repeated(
            "audiences",
            vec![
                int("id"),
                text("name"),
                int("membership_start_timestamp_micros"),
                int("membership_expiry_timestamp_micros"),
                Field::new("npa", Type::Bool),
            ],
        ),
        repeated("user_properties", vec![text("key"), record("value", user_values())]),
        record(
            "user_ltv",
            vec![float("revenue_in_usd"), int("sessions"), int("engagement_time_millis"), int("purchases")],
        ),
        privacy(),
        text("occurrence_date"),
        text("last_updated_date"),
    ]
}
