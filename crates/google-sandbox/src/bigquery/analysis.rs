//! A query before it runs: where it runs, what it reads, what it may cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::catalogue::{Catalogue, DEFAULT_LOCATION, Entry, Kind, Seen};
use super::failure::Failure;
use super::request::QueryAsked;
use super::sql::{self, Prepared, Session, TableId};
use super::switches::{Estimate, Switches};
use crate::clock::now_micros;
use crate::identities::Identity;

const MIB: i64 = 1024 * 1024;
/// The least that is billed for a table.
const FLOOR: i64 = 10 * MIB;

/// A query whose names, types and costs are known.
pub(crate) struct Analysis {
    pub(crate) prepared: Prepared,
    pub(crate) location: String,
    /// What a dry run says.
    pub(crate) estimate: i64,
    /// `PRECISE`, `UPPER_BOUND`, `LOWER_BOUND` or `UNKNOWN`; empty: the answer has none.
    pub(crate) accuracy: String,
    /// What the query then reads.
    pub(crate) processed: i64,
    /// What that is billed as.
    pub(crate) billed: i64,
    /// What the estimate would be billed as: the limit is checked against the larger one.
    pub(crate) billed_estimate: i64,
    /// Rows were left out by row access policies; then answers have no numbers of bytes.
    pub(crate) hides_bytes: bool,
    /// Whether an earlier result may stand in for this one.
    pub(crate) cacheable: bool,
    /// Whether one does.
    pub(crate) cached: bool,
    /// Where data come from that are elsewhere: only while global queries are on.
    pub(crate) remote: Vec<String>,
}

/// Whole MiB, at least ten of them; nothing for nothing.
fn billed(bytes: i64) -> i64 {
    if bytes == 0 { 0 } else { ((bytes + MIB - 1) / MIB * MIB).max(FLOOR) }
}

impl Analysis {
    /// Analyses a query for someone.
    ///
    /// # Errors
    /// What BigQuery answers to a dry run of it.
    pub(crate) fn new(
        catalogue: &Catalogue,
        loaded: &BTreeMap<TableId, Arc<Entry>>,
        identity: &Identity,
        project: &str,
        location: Option<&str>,
        asked: &QueryAsked,
        switches: &Switches,
    ) -> Result<Self, Failure> {
        let global = switches.global_queries();
        let seen = Seen { catalogue, loaded, identity, location: location.filter(|_| !global) };
        let default = asked.default_dataset.as_ref().map(|(default_project, dataset)| {
            (if default_project.is_empty() { project } else { default_project.as_str() }, dataset.as_str())
        });
        let session = Session {
            catalog: &seen,
            project,
            default_dataset: default,
            parameters: &asked.parameters,
            now: now_micros(),
        };
        let prepared = sql::prepare(&asked.sql, &session)?;
        let places = places(catalogue, &prepared);
        let location = match (location, places.as_slice()) {
            (Some(location), _) => location.to_owned(),
            (None, [first, (id, _), ..]) if !global => {
                return Err(Failure::not_found(format!(
                    "Dataset {}:{} was not found in location {}",
                    id.project, id.dataset, first.1
                )));
            }
            (None, [first, ..]) => first.1.to_owned(),
            (None, []) => {
                let default = default.and_then(|(project, dataset)| catalogue.dataset(project, dataset));
                default.map_or(DEFAULT_LOCATION, |dataset| dataset.location).to_owned()
            }
        };
        let remote = places.iter().filter(|place| place.1 != location).map(|place| place.1.to_owned()).collect();
        let mut analysis = Self {
            prepared,
            location,
            estimate: 0,
            accuracy: "PRECISE".to_owned(),
            processed: 0,
            billed: 0,
            billed_estimate: 0,
            hides_bytes: false,
            cacheable: false,
            cached: false,
            remote,
        };
        analysis.cacheable = analysis.prepared.deterministic && analysis.prepared.statement_type == "SELECT";
        analysis.weigh(&seen)?;
        analysis.overrule(&switches.estimate());
        Ok(analysis)
    }

    fn weigh(&mut self, seen: &Seen<'_>) -> Result<(), Failure> {
        for table in &self.prepared.tables {
            let bytes = i64::try_from(table.bytes()).unwrap_or(i64::MAX);
            // The tables of a wildcard are billed as one.
            let entries: Vec<Arc<Entry>> = table.scans.iter().filter_map(|scan| seen.entry(scan.table.id())).collect();
            let external = entries.iter().any(|entry| matches!(entry.kind, Kind::External { .. }));
            let clustered = entries.iter().any(|entry| !entry.clustering.is_empty());
            let protected = entries.iter().any(|entry| entry.let_through.is_some());
            // Blocks of a clustered table are left out while the query runs, which no estimate knows.
            let processed = if clustered { bytes / 4 } else { bytes };
            self.processed += processed;
            self.billed += billed(processed);
            if external {
                self.accuracy = "LOWER_BOUND".to_owned();
            } else {
                self.estimate += bytes;
                self.billed_estimate += billed(bytes);
            }
            if clustered && self.accuracy == "PRECISE" {
                self.accuracy = "UPPER_BOUND".to_owned();
            }
            self.hides_bytes |= protected;
            self.cacheable &= !external && !protected && !table.id.table.ends_with('*');
            for scan in &table.scans {
                let fields = scan.table.schema();
                let closed = scan.columns.iter().map(|index| &fields[*index]).find(|field| Entry::protected(field));
                if let Some(field) = closed {
                    return Err(policy_tag(scan.table.id(), &field.name));
                }
            }
        }
        Ok(())
    }

    /// What a test wants dry runs and jobs to say instead. Spread over the tables in the most expensive way.
    fn overrule(&mut self, wanted: &Estimate) {
        let tables = i64::try_from(self.prepared.tables.len()).unwrap_or(i64::MAX).max(1);
        let billed = |bytes: i64| match bytes {
            0 => 0,
            bytes => (billed(bytes) + (tables - 1) * MIB).max(tables * FLOOR),
        };
        if let Some(bytes) = wanted.bytes {
            self.estimate = bytes;
            self.billed_estimate = billed(bytes);
        }
        if let Some(accuracy) = &wanted.accuracy {
            self.accuracy.clone_from(accuracy);
        }
        if let Some(bytes) = wanted.processed {
            self.processed = bytes;
            self.billed = billed(bytes);
        }
    }

    /// The columns of the result.
    pub(crate) fn schema(&self) -> Json {
        json!({"fields": self.prepared.schema.iter().map(super::schema::Field::to_json).collect::<Vec<_>>()})
    }

    /// What the statement names: `referencedTables` has the tables behind views, not the views.
    pub(crate) fn references(&self, statistics: &mut Json) {
        let mut tables: Vec<&TableId> = Vec::new();
        for table in &self.prepared.tables {
            if !tables.contains(&&table.id) {
                tables.push(&table.id);
            }
        }
        let table = |id: &TableId| json!({"projectId": &*id.project, "datasetId": &*id.dataset, "tableId": &*id.table});
        if !tables.is_empty() {
            statistics["referencedTables"] = tables.into_iter().map(table).collect();
        }
        if !self.prepared.views.is_empty() {
            statistics["referencedLogicalViews"] = self.prepared.views.iter().map(table).collect();
        }
        if !self.prepared.routines.is_empty() {
            let routine =
                |id: &TableId| json!({"projectId": &*id.project, "datasetId": &*id.dataset, "routineId": &*id.table});
            statistics["referencedRoutines"] = self.prepared.routines.iter().map(routine).collect();
        }
    }

    /// `undeclaredQueryParameters`.
    pub(crate) fn undeclared(&self) -> Json {
        let parameter = |(name, kind): &(String, super::schema::Type)| {
            let mut parameter = json!({"parameterType": kind.to_parameter_json()});
            if !name.is_empty() {
                parameter["name"] = json!(name);
            }
            parameter
        };
        self.prepared.undeclared.iter().map(parameter).collect()
    }
}

/// 403 for a column with a policy tag.
pub(crate) fn policy_tag(id: &TableId, column: &str) -> Failure {
    Failure::access_denied(format!(
        "BigQuery BigQuery: User does not have permission to access policy tag \"Sandbox : confidential\" on column {id}.{column}."
    ))
}

/// Where the data of a statement are: each location once, with the first name that is there.
fn places<'a>(catalogue: &'a Catalogue, prepared: &'a Prepared) -> Vec<(&'a TableId, &'a str)> {
    let tables = prepared.tables.iter().map(|table| &table.id);
    let mut places: Vec<(&TableId, &str)> = Vec::new();
    for id in tables.chain(&prepared.views).chain(&prepared.routines) {
        if let Some(dataset) = catalogue.dataset(&id.project, &id.dataset)
            && places.iter().all(|(_, location)| *location != dataset.location)
        {
            places.push((id, dataset.location));
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn billed_bytes_are_whole_and_at_least_ten() {
        assert_eq!(billed(0), 0);
        assert_eq!(billed(1), FLOOR);
        assert_eq!(billed(FLOOR), FLOOR);
        assert_eq!(billed(FLOOR + 1), 11 * MIB);
    }
}
