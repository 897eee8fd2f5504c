//! The revisions of MCP that a server announces.

use rmcp::model::ProtocolVersion;

/// Every revision that can be announced, oldest first: ACP asks for 2025-03-26 and later.
const SPOKEN: &[ProtocolVersion] = &[
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];

/// Their names, for the command line.
pub(crate) const NAMES: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// The newest one with sessions and requests from the server, which `acp/configure` and `acp/read_table` stand on.
pub(crate) const DEFAULT: &str = "2025-11-25";

/// What a server announces, oldest first; never empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Revisions(&'static [ProtocolVersion]);

impl Revisions {
    /// All revisions up to the one of this name. `None` for a name that is not one of [`NAMES`].
    pub(crate) fn up_to(newest: &str) -> Option<Self> {
        let last = SPOKEN.iter().position(|revision| revision.as_str() == newest)?;
        Some(Self(&SPOKEN[..=last]))
    }

    pub(crate) fn all(self) -> &'static [ProtocolVersion] {
        self.0
    }

    /// What a client is answered that asks for a revision which is not announced.
    pub(crate) fn newest_with_sessions(self) -> ProtocolVersion {
        let with_sessions = |revision: &&ProtocolVersion| revision.has_initialize();
        self.0.iter().rfind(with_sessions).unwrap_or(&SPOKEN[0]).clone()
    }
}

impl Default for Revisions {
    fn default() -> Self {
        Self::up_to(DEFAULT).unwrap_or(Self(SPOKEN))
    }
}

/// Whether a revision lets a message be a list of messages. Only the oldest does: later ones took batches out again.
pub(crate) fn has_batches(revision: &ProtocolVersion) -> bool {
    *revision == ProtocolVersion::V_2025_03_26
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_revisions() {
        for (name, revision) in NAMES.iter().zip(SPOKEN) {
            assert_eq!(*name, revision.as_str());
            let announced = Revisions::up_to(name).unwrap();
            assert_eq!(announced.all().last(), Some(revision));
            assert!(announced.newest_with_sessions().has_initialize());
        }
        assert_eq!(Revisions::default().newest_with_sessions(), ProtocolVersion::V_2025_11_25);
        assert!(Revisions::up_to("2024-11-05").is_none());
    }
}
