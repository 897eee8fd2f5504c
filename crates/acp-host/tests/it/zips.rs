//! Zips for tests, good and evil.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Answers as an ACP server: a shell script, so that the tests need nothing else.
pub(crate) const SERVER: &str = r#"#!/bin/sh
while read -r line; do
  id=${line#*\"id\":}; id=${id%%,*}
  case $line in
  *'"initialize"'*)
    printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"toy","version":"VERSION"},"capabilities":{"experimental":{"acp":{"version":"1.0","defaults":{"row_limit":25,"cost_limit_usd":0},"credentials_schema":{"type":"object","properties":{}},"resource_id":{"description":"d","format":"none","examples":[]},"autocontext":{"cache_ttl_s":1,"delivery":["suggest"]},"cost":{"currency":"USD","model":"free","description":"d"},"extraction_tools":[]}}}}}\n' "$id" ;;
  *'"tools/list"'*)
    printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"autocontext","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
  esac
done
"#;

pub(crate) fn manifest(id: &str, version: &str) -> String {
    format!(
        r#"{{"acp_version":"1.0","id":"{id}","name":"Toy","version":"{version}","description":"d","legacy":1,
            "transport":{{"type":"stdio","command":"sh","args":["start.sh"]}}}}"#
    )
}

/// Name, content and mode of each entry; a name with a final slash is a folder.
pub(crate) fn zip(entries: &[(&str, &[u8], u32)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content, mode) in entries {
        let options =
            SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).unix_permissions(*mode);
        if name.ends_with('/') {
            zip.add_directory(*name, options).unwrap();
        } else {
            zip.start_file(*name, options).unwrap();
            zip.write_all(content).unwrap();
        }
    }
    zip.finish().unwrap().into_inner()
}

pub(crate) fn save(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("package.zip");
    std::fs::write(&path, bytes).unwrap();
    path
}

pub(crate) fn toy(id: &str, version: &str) -> Vec<u8> {
    let server = SERVER.replace("VERSION", version);
    zip(&[("acp.json", manifest(id, version).as_bytes(), 0o644), ("start.sh", server.as_bytes(), 0o755)])
}

/// Replaces every occurrence of bytes by as many others: for fields that the writer doesn't let one set.
pub(crate) fn patch(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut patched = bytes.to_vec();
    let mut place = 0;
    let mut found = 0;
    while place + from.len() <= patched.len() {
        if &patched[place..place + from.len()] == from {
            patched[place..place + to.len()].copy_from_slice(to);
            found += 1;
        }
        place += 1;
    }
    assert!(found > 0, "nothing to patch");
    patched
}

/// Sets a bit in the flags of every local and central header.
pub(crate) fn set_flag(bytes: &[u8], bit: u8) -> Vec<u8> {
    let mut patched = bytes.to_vec();
    for place in 0..patched.len() - 4 {
        match &patched[place..place + 4] {
            b"PK\x03\x04" => patched[place + 6] |= bit,
            b"PK\x01\x02" => patched[place + 8] |= bit,
            _ => {}
        }
    }
    patched
}
