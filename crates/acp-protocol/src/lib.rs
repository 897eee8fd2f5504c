//! The wire types of ACP 1.0 (Analytics Context Protocol), a profile of MCP.
//!
//! Every message that ACP adds to MCP has its type here, named as in Appendix A of the specification
//! without the `Acp` prefix. The crate does no I/O and knows neither the server nor the host side: both stand
//! on it, so a rule about a message is written once.
//!
//! Rows and totals travel as raw JSON text ([`serde_json::value::RawValue`]), because a JSON number may hold
//! more digits than any Rust number type and none of them may be lost on the way.

pub mod autocontext;
pub mod capability;
pub mod dates;
pub mod error;
pub mod manifest;
mod number;
pub mod result;
pub mod session;
pub mod setup;
pub mod skill;
mod visible;

pub use visible::visible;

/// The ACP version these types implement, `MAJOR.MINOR` (12.2).
pub const PROTOCOL_VERSION: &str = "1.0";
/// The key of ACP in `capabilities.experimental` and in `_meta`.
pub const KEY: &str = "acp";
/// JSON-RPC method by which a host sets session values (5.1).
pub const METHOD_CONFIGURE: &str = "acp/configure";
/// JSON-RPC method by which a server asks the host for a local table (8.8).
pub const METHOD_READ_TABLE: &str = "acp/read_table";
/// Reserved tool: resources, or the autocontext blocks of one resource (7.3).
pub const TOOL_AUTOCONTEXT: &str = "autocontext";
/// Reserved tool: which blocks there are (7.2).
pub const TOOL_AUTOCONTEXT_DATA: &str = "autocontext_data";
/// Marks an argument as a bound of the date window, or as a text with date markers (8.9).
pub const ANNOTATION_DATE: &str = "x-acp-date";
/// URL patterns that an argument accepts (8.11).
pub const ANNOTATION_URL: &str = "x-acp-url";
/// Marks what kind of host object an argument names (8.8).
pub const ANNOTATION_INPUT: &str = "x-acp-input";
/// The value of [`ANNOTATION_INPUT`] for the id of a host table.
pub const INPUT_TABLE_REF: &str = "table_ref";
/// The most resources one list answers with (6.3).
pub const RESOURCE_SUGGESTIONS: usize = 25;
/// Tables up to this many bytes of JSON travel inside the answer (8.5).
pub const INLINE_MAX_BYTES: u64 = 5 * 1024 * 1024;
/// The highest `row_limit` (5.1).
pub const MAX_ROW_LIMIT: u32 = 5000;
/// The highest `field_limit` (5.1).
pub const MAX_FIELD_LIMIT: u32 = 200;
/// `field_limit` where the server declares none (4.2).
pub const DEFAULT_FIELD_LIMIT: u32 = 20;
/// Rows of a table with a model view when the answer has one table (8.2.1).
pub const MODEL_ROWS_SINGLE: usize = 50;
/// Rows of each table with a model view when the answer has several (8.2.1).
pub const MODEL_ROWS_MULTI: usize = 10;
/// Characters of a value in a model view, unless the view says otherwise (8.2.1).
pub const MODEL_VIEW_MAX_VALUE_CHARS: usize = 80;

/// A JSON object that keeps the order of its keys.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;

/// Whether two ACP versions can work together: their major numbers are equal (4.3). A text that is not
/// `MAJOR.MINOR` is compatible with nothing.
pub fn compatible(version: &str) -> bool {
    fn major(version: &str) -> Option<u32> {
        let (major, minor) = version.split_once('.')?;
        minor.parse::<u32>().ok()?;
        major.parse().ok()
    }
    major(version).is_some() && major(version) == major(PROTOCOL_VERSION)
}

#[cfg(test)]
mod tests {
    use super::compatible;

    #[test]
    fn only_the_major_version_decides() {
        assert!(compatible("1.0") && compatible("1.9"));
        for other in ["2.0", "0.9", "1", "", "one.two", "1.x"] {
            assert!(!compatible(other), "{other}");
        }
    }
}
