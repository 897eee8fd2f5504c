//! Named patterns, by which tools put the values of a dimension into groups.

use acp_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::redact::clean;

/// Clusters of one call.
const CLUSTERS_MAX: usize = 50;
/// Characters of a name.
const NAME_MAX: usize = 60;

/// A named pattern.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Name of the group.
    pub name: String,
    /// RE2, matches a part; case does not matter.
    pub pattern: String,
}

impl Cluster {
    /// Checks how many there are and that each has a name of its own, which is none of `reserved`. Patterns are left to
    /// the API's own rules.
    pub fn check_names(clusters: &mut [Self], reserved: &[&str]) -> Result<()> {
        if clusters.len() > CLUSTERS_MAX {
            return Err(Error::invalid_arguments(format!(
                "There are {} clusters; at most {CLUSTERS_MAX} are possible. Join some with |.",
                clusters.len()
            )));
        }
        for cluster in &mut *clusters {
            cluster.name = clean(&cluster.name, NAME_MAX);
        }
        let names: Vec<&str> = clusters.iter().map(|cluster| cluster.name.as_str()).collect();
        let taken = |place: usize, name: &str| names[..place].contains(&name) || reserved.contains(&name);
        match names.iter().enumerate().find(|(place, name)| name.is_empty() || taken(*place, name)) {
            None => Ok(()),
            Some((_, &"")) => Err(Error::invalid_arguments("A cluster has no name. Give each one a name.")),
            Some((_, name)) => Err(Error::invalid_arguments(format!(
                "The cluster name {name:?} is taken. Give each cluster a name of its own."
            ))),
        }
    }
}
