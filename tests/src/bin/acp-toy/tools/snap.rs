//! `snap`: leaves a picture in a file.

use std::io::Write;
use std::path::{Path, PathBuf};

use acp_core::{Call, Error, Hints, Info, Result, Tool, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::source::Toy;

/// One grey pixel.
const PNG: [u8; 67] = [
    0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8,
    0, 0, 0, 0, 0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0, 10, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63, 0x68, 0, 0, 0, 0x82, 0,
    0x81, 0x77, 0xcd, 0x72, 0xb6, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// Takes a picture of nothing.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Snap {}

impl Tool for Snap {
    type Source = Toy;
    type Answer = Info;
    const SPEC: ToolSpec =
        ToolSpec { name: "snap", title: "Snap", resource: false, credentials: false, hints: Hints::READS_LOCAL };

    async fn run(self, _: &Toy, _: &Call) -> Result<Info> {
        let folder = match std::env::var_os("ACP_TMP_DIR").filter(|folder| !folder.is_empty()) {
            Some(folder) => PathBuf::from(folder),
            None => std::env::temp_dir().join("acp-results"),
        };
        let path = write(&folder)
            .map_err(|error| Error::upstream(format!("The picture could not be written: {error}. Repeat the call.")))?;
        Ok(Info(json!({"screenshot_path": path})))
    }
}

fn write(folder: &Path) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix("toy-").suffix(".png").tempfile_in(folder)?;
    file.write_all(&PNG)?;
    let (_, path) = file.keep().map_err(|error| error.error)?;
    std::path::absolute(path)
}
