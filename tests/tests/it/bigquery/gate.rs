//! Nothing but one SELECT gets through, whatever it is dressed up as.

use serde_json::json;

use super::bench::{BigQuery, Bq, Google};

/// Texts that write, hide a write, or are more than one statement; one a block.
const REFUSED: &str = include_str!("refused.sql.txt");
/// Texts that only read, some of which look otherwise.
const READS: &str = include_str!("reads.sql.txt");

fn texts(file: &str) -> Vec<String> {
    let unescaped = |text: &str| {
        text.replace("\\CR", "\r").replace("\\NBSP", "\u{a0}").replace("\\LS", "\u{2028}").replace("\\BOM", "\u{feff}")
    };
    file.split("\n---\n").map(|text| unescaped(text.trim_matches('\n'))).filter(|text| !text.is_empty()).collect()
}

#[test]
fn a_write_never_leaves_this_machine() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    let texts = texts(REFUSED);
    assert!(texts.len() >= 150, "{}", texts.len());
    for text in &texts {
        let answer = bq.query(text);
        let (code, message) = answer.error().unwrap_or_else(|| panic!("it ran: {text}"));
        assert!(matches!(code, -32019 | -32017), "{text}: {code} {message}");
        assert!(google.sandbox().log().iter().all(|request| !request.path.ends_with("/jobs")), "it was sent: {text}");
    }
    bq.end_well();
}

/// S-10.4-01: what the local check lets through, the dry run refuses.
#[test]
fn what_only_reads_is_not_refused_for_its_words() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    for text in texts(READS) {
        let answer = bq.query(&text);
        if let Some((code, message)) = answer.error() {
            assert!(code != -32019, "{text}: {message}");
            // These tables do not exist; that BigQuery says so shows that it was asked.
            assert!(matches!(code, -32017 | -32014), "{text}: {code} {message}");
            assert!(!message.contains("can't be read at line"), "{text}: {message}");
        }
    }
    bq.end_well();
}

/// A statement that Google names otherwise than its text looks is refused by that name.
#[test]
fn the_dry_run_has_the_last_word() {
    let google = Google::start();
    let mut bq = Bq::start(&google);
    for (kind, part) in
        [("SCRIPT", "the query is SCRIPT"), ("EXPORT_DATA", "the query is EXPORT DATA"), ("", "does not name")]
    {
        let answer = json!({"kind": "bigquery#job", "jobReference": {"projectId": "acp-sandbox"}, "statistics": {"query": {
            "statementType": kind, "totalBytesProcessed": "0", "totalBytesProcessedAccuracy": "PRECISE"}}});
        google.fault(
            &json!({"path": "/jobs$", "times": 1, "action": {"status": {"code": 200, "body": answer.to_string()}}}),
        );
        let message = bq.query("SELECT 1").refused(-32019);
        assert!(message.contains(part), "{message}");
    }
    assert!(google.jobs().is_empty());
    bq.end_well();
}
