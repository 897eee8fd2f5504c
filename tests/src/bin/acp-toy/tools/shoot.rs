//! `shoot` and `capture`: several tables in one answer.

use std::fmt;

use acp_core::{Call, Error, Hints, NamedTable, Result, TableWriter, Tables, Tool, ToolSpec};
use acp_protocol::result::{ColumnType, Header, ModelView};
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde_json::{Value, json};

use crate::about::TITLES;
use crate::source::Toy;

/// Tables of the sizes that are given.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Shoot {
    /// A JSON object: for each table a number of rows, or the rows.
    sizes: String,
    /// A JSON object: for each table a view, `{fields, max_value_chars, max_rows}`. It replaces the usual views.
    views: Option<String>,
    /// The manifest, as JSON.
    manifest: Option<String>,
    /// The main table.
    primary: Option<String>,
    /// Make only what is asked for.
    #[serde(default)]
    lazy: bool,
}

impl Tool for Shoot {
    type Source = Toy;
    type Answer = Tables;
    const SPEC: ToolSpec =
        ToolSpec { name: "shoot", title: "Shoot", resource: false, credentials: false, hints: Hints::READS_LOCAL };

    async fn run(self, _: &Toy, call: &Call) -> Result<Tables> {
        let views = match &self.views {
            Some(views) => json_of::<Pairs<ModelView>>("views", views)?.0,
            None => usual_views(),
        };
        let manifest = match &self.manifest {
            Some(manifest) => json_of("manifest", manifest)?,
            None => json!({"pages": [{"page_index": 0, "url": "https://shop.example.com/", "title": "Shop"}]}),
        };
        let Pairs(sizes) = json_of::<Pairs<Value>>("sizes", &self.sizes)?;
        let mut tables = Tables::new("Capture of shop.example.com.")
            .title("Shop")
            .manifest(manifest)
            .source(json!({"browser": "none"}).as_object().cloned().unwrap_or_default());
        for (name, size) in sizes {
            if self.lazy && !call.wants_table(&name) {
                continue;
            }
            let mut table = named(call, &name, &size)?;
            if let Some((_, view)) = views.iter().find(|(known, _)| *known == name) {
                table = table.view(view.clone());
            }
            tables = tables.table(if self.primary.as_ref() == Some(&name) { table.primary() } else { table });
        }
        Ok(tables)
    }
}

/// The tables of one page of an account.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Capture {
    /// A JSON object: for each table a number of rows, or the rows.
    sizes: String,
}

impl Tool for Capture {
    type Source = Toy;
    type Answer = Tables;
    const SPEC: ToolSpec =
        ToolSpec { name: "capture", title: "Capture", resource: true, credentials: true, hints: Hints::READS_LOCAL };

    async fn run(self, toy: &Toy, call: &Call) -> Result<Tables> {
        let account = toy.reach(call)?;
        let mut tables = Tables::new(format!("Capture of account {account}."))
            .dates([call.today()])
            .extra(json!({"account": account}));
        for (name, size) in json_of::<Pairs<Value>>("sizes", &self.sizes)?.0 {
            tables = tables.table(named(call, &name, &size)?);
        }
        Ok(tables)
    }
}

/// A table of so many generated rows, or of the rows that are given.
fn named(call: &Call, name: &str, size: &Value) -> Result<NamedTable> {
    let rows = match size {
        Value::Array(rows) => rows.clone(),
        size => {
            let count =
                size.as_u64().ok_or_else(|| Error::invalid_arguments("sizes must hold numbers or lists of rows."))?;
            return Ok(described(name, generated(call, name, count)?));
        }
    };
    let mut table = call.object_table(Vec::new());
    for row in &rows {
        table.push(&row.to_string())?;
    }
    Ok(described(name, table.into_table()?))
}

fn described(name: &str, table: TableWriter) -> NamedTable {
    let table = NamedTable::new(name, table);
    match name {
        // One table with a window and a sentence of its own.
        "errors" => table.title("Errors").description("Errors of the page.").dates([Date::constant(2026, 10, 1)]),
        name => match TITLES.iter().find(|(known, _)| *known == name) {
            Some((_, title)) => table.title(*title).description(format!("{title} of the page.")),
            None => table,
        },
    }
}

fn generated(call: &Call, name: &str, count: u64) -> Result<TableWriter> {
    let columns: Vec<String> = match name {
        "ga4_hits" => {
            let others = (0..27).map(|place| format!("p{place}"));
            ["page_index", "en", "tid", "dl"].map(str::to_owned).into_iter().chain(others).collect()
        }
        "datalayer" => ["page_index", "event"].map(str::to_owned).into(),
        "cookies" => ["name", "domain", "session"].map(str::to_owned).into(),
        _ => ["n", "text"].map(str::to_owned).into(),
    };
    let column_type = |name: &str| match name {
        "page_index" | "n" => ColumnType::Integer,
        "session" => ColumnType::Boolean,
        _ => ColumnType::String,
    };
    let header =
        |name: &String| Header { name: name.clone(), column_type: column_type(name), role: None, description: None };
    let mut table = call.object_table(columns.iter().map(header).collect());
    for row in 0..count {
        let cell = |name: &str| match name {
            "page_index" | "n" => json!(row),
            "session" => json!(row % 2 == 0),
            name => json!(format!("{name}{row}")),
        };
        let row: serde_json::Map<String, Value> = columns.iter().map(|name| (name.clone(), cell(name))).collect();
        table.push(&Value::Object(row).to_string())?;
    }
    table.into_table()
}

fn usual_views() -> Vec<(String, ModelView)> {
    let view = |name: &str, fields: &[&str]| {
        let fields = fields.iter().map(ToString::to_string).collect();
        (name.to_owned(), ModelView { fields, max_value_chars: None, max_rows: None })
    };
    vec![view("ga4_hits", &["en", "tid", "dl"]), view("datalayer", &["event"])]
}

fn json_of<T: DeserializeOwned>(name: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|_| Error::invalid_arguments(format!("{name} must be JSON of its form.")))
}

/// The fields of a JSON object in their order, repeated ones included: the toy may do what a connector must not.
struct Pairs<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Fields<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Vec<(String, T)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Fields(std::marker::PhantomData)).map(Self)
    }
}
