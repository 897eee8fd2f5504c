//! Files that a tool leaves behind in place of a table (8.10): a picture becomes a content block, a document goes into the
//! project.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use indexmap::IndexMap;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Folder for documents, inside that of the datasets.
pub const FOLDER: &str = "files";
/// Largest picture that the model gets.
pub const IMAGE_MAX: u64 = 4 * 1024 * 1024;
const SCREENSHOT: &str = "screenshot_path";
const DOWNLOAD: &str = "download_path";
const DOCUMENTS: [&str; 2] = ["pdf_path", DOWNLOAD];

/// An answer with its files taken care of.
#[derive(Debug)]
pub struct Artifacts {
    /// What the model reads; paths of documents are relative to the project now.
    pub model_text: String,
    /// Pictures, as content blocks of MCP.
    pub blocks: Vec<Value>,
    /// What to tell the model.
    pub notes: Vec<String>,
}

impl From<String> for Artifacts {
    /// An answer without files.
    fn from(model_text: String) -> Self {
        Self { model_text, blocks: Vec::new(), notes: Vec::new() }
    }
}

/// Takes care of the files that an answer names. `data` is the folder of the datasets. Blocks.
pub fn collect(model_text: String, data: &Path) -> Artifacts {
    let mut done = Artifacts::from(model_text);
    let Ok(mut response) = serde_json::from_str::<IndexMap<String, Box<RawValue>>>(&done.model_text) else {
        return done;
    };
    let path = |response: &IndexMap<String, Box<RawValue>>, key: &str| {
        response.get(key).and_then(|value| serde_json::from_str::<PathBuf>(value.get()).ok())
    };
    if let Some(path) = path(&response, SCREENSHOT) {
        match image(&path) {
            Ok(block) => done.blocks.push(block),
            Err(problem) => done.notes.push(format!("The picture is not shown: {problem}.")),
        }
    }
    let mut replaced = false;
    for key in DOCUMENTS {
        let Some(path) = path(&response, key) else { continue };
        match copy(&path, &data.join(FOLDER)) {
            Ok((name, bytes)) => {
                let relative = format!("{}/{FOLDER}/{name}", crate::datasets::FOLDER);
                let markdown =
                    key == DOWNLOAD && response.get("download_as").is_some_and(|value| value.get() == "\"markdown\"");
                let what = if markdown { "The document was saved as Markdown" } else { "The file was saved" };
                done.notes.push(format!("{what} in {relative} ({bytes} bytes)."));
                replace(&mut response, key, &relative, bytes);
                replaced = true;
            }
            Err(error) => done.notes.push(format!("The file of {key} could not be copied into the project: {error}.")),
        }
    }
    if replaced && let Ok(text) = serde_json::to_string(&response) {
        done.model_text = text;
    }
    done
}

/// Puts the relative path in the place of the absolute one, with what became of the file.
fn replace(response: &mut IndexMap<String, Box<RawValue>>, key: &str, relative: &str, bytes: u64) {
    let place = response.get_index_of(key).unwrap_or(response.len());
    response.shift_remove(key);
    let values = [("export_path", json!(relative)), ("bytes", json!(bytes)), ("saved", json!(true))];
    for (offset, (name, value)) in values.into_iter().enumerate() {
        response.shift_remove(name);
        if let Ok(raw) = RawValue::from_string(value.to_string()) {
            response.shift_insert((place + offset).min(response.len()), name.to_owned(), raw);
        }
    }
}

/// A picture as a content block. What is no JPEG or PNG doesn't reach the model, whatever its path says.
fn image(path: &Path) -> Result<Value, String> {
    let unreadable = |error: io::Error| format!("its file can't be read: {error}");
    let file = open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(IMAGE_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > IMAGE_MAX {
        return Err(format!("it is larger than {IMAGE_MAX} bytes"));
    }
    let media_type = match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        _ => return Err("it is neither PNG nor JPEG".to_owned()),
    };
    Ok(json!({"type": "image", "data": BASE64_STANDARD.encode(&bytes), "mimeType": media_type}))
}

/// Copies a file into a folder, under its own name or the first one free. Returns name and size.
fn copy(path: &Path, folder: &Path) -> io::Result<(String, u64)> {
    let mut file = open(path)?;
    std::fs::create_dir_all(folder)?;
    let mut part = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    let bytes = io::copy(&mut file, &mut part)?;
    part.as_file().sync_all()?;
    let name = safe_name(path);
    let (stem, extension) = name
        .rsplit_once('.')
        .map_or((name.as_str(), String::new()), |(stem, extension)| (stem, format!(".{extension}")));
    for number in 1.. {
        let name = if number == 1 { name.clone() } else { format!("{stem}_{number}{extension}") };
        match part.persist_noclobber(folder.join(&name)) {
            Ok(_) => return Ok((name, bytes)),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => part = error.file,
            Err(error) => return Err(error.error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Only plain files: opening a pipe would wait for ever.
fn open(path: &Path) -> io::Result<File> {
    if !path.is_absolute() || !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no absolute path of a file"));
    }
    File::open(path)
}

/// The last part of a path as a name that every system takes and no program reads as anything else.
fn safe_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ' ') { c } else { '_' };
    let name: String = name.chars().take(100).map(plain).collect();
    let name = name.trim_matches(['.', ' ']);
    if name.is_empty() { "file".to_owned() } else { name.to_owned() }
}
