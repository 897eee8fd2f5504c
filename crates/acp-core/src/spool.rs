//! Where the rows of a table wait until the call is over: in memory up to the inline limit, then in a file.
//!
//! The content is the JSON array that will be delivered, one row a line, so that the same bytes serve as an inline
//! table (without the line breaks), as a file, and as something from which single rows can be read again.

use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Rows that stay in memory although they should be in a file, because no file can be made: at most this many bytes.
const MEMORY_FALLBACK_BYTES: u64 = 256 * 1024 * 1024;
const FILE_BUFFER_BYTES: usize = 128 * 1024;

/// What to do with rows beyond the inline limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// Go on in a file.
    File,
    /// Forget all rows: nobody will ask for them.
    Discard,
}

/// Where files of tables go, and what they are called.
#[derive(Clone, Debug)]
pub(crate) struct TableFiles {
    /// `ACP_TMP_DIR`, or a folder of ours in the system's temporary folder.
    pub(crate) directory: PathBuf,
    /// Whether it is the latter, where others may have put something of that name.
    pub(crate) shared_place: bool,
    /// The server's name, with which file names start.
    pub(crate) prefix: String,
}

impl TableFiles {
    /// A file without a name, which is gone when it is closed.
    pub(crate) fn unnamed(&self) -> io::Result<std::fs::File> {
        self.prepare()?;
        tempfile::tempfile_in(&self.directory)
    }

    fn prepare(&self) -> io::Result<()> {
        create_private(&self.directory)?;
        if self.shared_place {
            check_private(&self.directory)?;
        }
        Ok(())
    }

    fn create(&self) -> io::Result<NamedTempFile> {
        self.prepare()?;
        // tempfile makes files that only their owner can read.
        tempfile::Builder::new()
            .prefix(&format!("{}-", self.prefix))
            .suffix(".json")
            .rand_bytes(24)
            .tempfile_in(&self.directory)
    }
}

/// Makes a folder that only its owner can look into, where it does not exist yet.
fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes sure that a folder is a folder, our own, and closed to others. Whoever owned it could replace tables before the
/// host reads them.
#[cfg(unix)]
fn check_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let refuse = |why: &str| Err(io::Error::other(format!("{why}; set ACP_TMP_DIR to a folder of your own")));
    let metadata = std::fs::symlink_metadata(folder)?;
    if !metadata.is_dir() {
        return refuse("it is not a folder");
    }
    // Whose a new file is tells who we are.
    let own = NamedTempFile::new()?.as_file().metadata()?.uid();
    if metadata.uid() != own || metadata.mode() & 0o077 != 0 {
        return refuse("it belongs to others or is open to them");
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_private(_: &Path) -> io::Result<()> {
    // Temporary folders are per user there.
    Ok(())
}

/// Rows being collected.
#[derive(Debug)]
pub(crate) struct Spool {
    memory: Vec<u8>,
    file: Option<BufWriter<NamedTempFile>>,
    discarded: bool,
    rows: u64,
    /// Bytes of the table as compact JSON.
    bytes: u64,
    memory_limit: u64,
    overflow: Overflow,
    files: TableFiles,
    fallback: Option<String>,
}

/// Rows that are complete.
#[derive(Debug)]
pub(crate) struct Spooled {
    /// How many there are.
    pub(crate) rows: u64,
    /// Where they are.
    pub(crate) place: Place,
    /// Why they are in memory although they are too many for it.
    pub(crate) fallback: Option<String>,
}

/// Where complete rows are.
#[derive(Debug)]
pub(crate) enum Place {
    /// A JSON array in memory, one row a line.
    Memory(Vec<u8>),
    /// The same in a file, which is removed when this value is dropped.
    File(NamedTempFile),
    /// They were not kept.
    Nowhere,
}

impl Spool {
    /// A spool that keeps `memory_limit` bytes of compact JSON in memory before `overflow` applies.
    pub(crate) fn new(memory_limit: u64, overflow: Overflow, files: TableFiles) -> Self {
        Self {
            memory: Vec::new(),
            file: None,
            discarded: false,
            rows: 0,
            bytes: 2,
            memory_limit: memory_limit.min(MEMORY_FALLBACK_BYTES),
            overflow,
            files,
            fallback: None,
        }
    }

    /// Rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds one row: a JSON object without line breaks.
    pub(crate) fn push(&mut self, row: &[u8]) -> io::Result<()> {
        self.bytes += row.len() as u64 + u64::from(self.rows > 0);
        self.rows += 1;
        if self.discarded {
            return Ok(());
        }
        self.leave_memory_if_full()?;
        let separator: &[u8] = if self.rows == 1 { b"[" } else { b",\n" };
        match &mut self.file {
            Some(file) => {
                file.write_all(separator)?;
                file.write_all(row)
            }
            None if self.discarded => Ok(()),
            None => {
                self.memory.extend_from_slice(separator);
                self.memory.extend_from_slice(row);
                Ok(())
            }
        }
    }

    fn leave_memory_if_full(&mut self) -> io::Result<()> {
        if self.file.is_some() || self.bytes <= self.memory_limit {
            return Ok(());
        }
        if self.overflow == Overflow::Discard {
            self.discarded = true;
            self.memory = Vec::new();
            return Ok(());
        }
        match self.files.create() {
            Ok(file) => {
                let mut file = BufWriter::with_capacity(FILE_BUFFER_BYTES, file);
                file.write_all(&std::mem::take(&mut self.memory))?;
                self.file = Some(file);
                Ok(())
            }
            Err(error) if self.memory_limit < MEMORY_FALLBACK_BYTES => {
                self.fallback = Some(format!("{}: {error}", self.files.directory.display()));
                self.memory_limit = MEMORY_FALLBACK_BYTES;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Completes the JSON array.
    pub(crate) fn finish(mut self) -> io::Result<Spooled> {
        // An empty table may still be too large for an inline limit of 0 or 1 byte.
        if !self.discarded {
            self.leave_memory_if_full()?;
        }
        let end: &[u8] = if self.rows == 0 { b"[]" } else { b"\n]" };
        let place = match self.file {
            Some(mut file) => {
                file.write_all(end)?;
                Place::File(file.into_inner().map_err(io::IntoInnerError::into_error)?)
            }
            None if self.discarded => Place::Nowhere,
            None => {
                self.memory.extend_from_slice(end);
                Place::Memory(self.memory)
            }
        };
        Ok(Spooled { rows: self.rows, place, fallback: self.fallback })
    }
}

impl Spooled {
    /// Calls `each` with every row, in order.
    pub(crate) fn for_each(&mut self, mut each: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        match &mut self.place {
            Place::Memory(bytes) => read_lines(bytes.as_slice(), &mut each),
            Place::File(file) => {
                file.as_file_mut().rewind()?;
                read_lines(BufReader::with_capacity(FILE_BUFFER_BYTES, file.as_file_mut()), &mut each)
            }
            Place::Nowhere => Ok(()),
        }
    }

    /// The rows at these ascending places.
    pub(crate) fn rows_at(&mut self, places: &[u64]) -> io::Result<Vec<String>> {
        let mut wanted = places.iter().copied().peekable();
        let mut rows = Vec::with_capacity(places.len());
        let mut place = 0;
        self.for_each(|row| {
            if wanted.next_if_eq(&place).is_some() {
                rows.push(row.to_owned());
            }
            place += 1;
            Ok(())
        })?;
        Ok(rows)
    }
}

impl Place {
    /// The compact table, when it is in memory. The line breaks are taken out in place.
    pub(crate) fn into_inline(self) -> Option<Vec<u8>> {
        match self {
            Self::Memory(mut bytes) => {
                bytes.retain(|byte| *byte != b'\n');
                Some(bytes)
            }
            Self::File(_) | Self::Nowhere => None,
        }
    }
}

fn read_lines(mut reader: impl BufRead, each: &mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<()> {
    let mut line = String::new();
    let mut first = true;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut row = line.trim_end_matches('\n');
        if std::mem::take(&mut first) {
            row = row.strip_prefix('[').unwrap_or(row);
        }
        let row = row.strip_suffix(',').unwrap_or(row);
        if !row.is_empty() && row != "]" {
            each(row)?;
        }
    }
}

/// The `file://` URI of an absolute path.
pub(crate) fn file_uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    let text = path.to_string_lossy().replace('\\', "/");
    if !text.starts_with('/') {
        uri.push('/');
    }
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' | b':' => uri.push(byte.into()),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Which rows of `total` the model sees when `shown` are spread evenly over them, the first and the last included:
/// the i-th is `round(i * (total - 1) / (shown - 1))`, halves rounded up.
pub(crate) fn spread(total: u64, shown: u64) -> Vec<u64> {
    match shown {
        _ if shown >= total => (0..total).collect(),
        0 => Vec::new(),
        1 => vec![0],
        _ => {
            let (last, gaps) = (u128::from(total - 1), u128::from(shown - 1));
            (0..u128::from(shown)).map(|i| ((2 * i * last + gaps) / (2 * gaps)) as u64).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spool(limit: u64, overflow: Overflow, directory: &Path, rows: &[&str]) -> Spooled {
        let files = TableFiles { directory: directory.to_owned(), shared_place: false, prefix: "test".to_owned() };
        let mut spool = Spool::new(limit, overflow, files);
        for row in rows {
            spool.push(row.as_bytes()).unwrap();
        }
        spool.finish().unwrap()
    }

    #[test]
    fn the_limit_counts_the_bytes_of_compact_json() {
        let folder = tempfile::tempdir().unwrap();
        let rows = ["{\"a\":1}", "{\"a\":\"é\"}"];
        let compact = format!("[{}]", rows.join(","));
        let inline = spool(compact.len() as u64, Overflow::File, folder.path(), &rows).place.into_inline();
        assert_eq!(inline.as_deref(), Some(compact.as_bytes()));
        let spooled = spool(compact.len() as u64 - 1, Overflow::File, folder.path(), &rows);
        let Place::File(file) = &spooled.place else { panic!("not in a file") };
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text, format!("[{}\n]", rows.join(",\n")));
        drop(spooled);
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "the file outlives an answer that was not sent"
        );
    }

    #[test]
    fn empty_tables_and_discarded_tables() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(spool(2, Overflow::File, folder.path(), &[]).place.into_inline().as_deref(), Some(&b"[]"[..]));
        assert!(matches!(spool(0, Overflow::File, folder.path(), &[]).place, Place::File(_)));
        let gone = spool(3, Overflow::Discard, folder.path(), &["{\"a\":1}", "{}"]);
        assert!(matches!(gone.place, Place::Nowhere) && gone.rows == 2);
    }

    #[test]
    fn without_a_folder_rows_stay_in_memory_and_it_is_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let spooled = spool(0, Overflow::File, &file.path().join("below-a-file"), &["{}"]);
        assert!(spooled.fallback.is_some());
        assert_eq!(spooled.place.into_inline().as_deref(), Some(&b"[{}]"[..]));
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_in_a_shared_place_must_be_our_own_and_closed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let root = tempfile::tempdir().unwrap();
        let files =
            |name: &str| TableFiles { directory: root.path().join(name), shared_place: true, prefix: "t".into() };
        assert!(files("new").create().is_ok() && files("new").create().is_ok());
        std::fs::create_dir(root.path().join("open")).unwrap();
        std::fs::set_permissions(root.path().join("open"), std::fs::Permissions::from_mode(0o777)).unwrap();
        symlink(root.path().join("new"), root.path().join("link")).unwrap();
        assert!(files("open").create().is_err() && files("link").create().is_err());
    }

    #[test]
    fn uris_are_escaped() {
        assert_eq!(file_uri(Path::new("/tmp/a b/é.json")), "file:///tmp/a%20b/%C3%A9.json");
        assert_eq!(file_uri(Path::new("C:\\Temp\\x.json")), "file:///C:/Temp/x.json");
    }

    #[test]
    fn spread_examples() {
        assert_eq!(spread(10, 5), [0, 2, 5, 7, 9]);
        assert_eq!(spread(100, 7), [0, 17, 33, 50, 66, 83, 99]);
        assert_eq!((spread(2, 1), spread(3, 2), spread(0, 5), spread(5, 0)), (vec![0], vec![0, 2], vec![], vec![]));
        assert_eq!(spread(u64::MAX, 2), [0, u64::MAX - 1]);
    }

    proptest! {
        #[test]
        fn spread_is_even_and_keeps_both_ends(total in 0_u64..3000, shown in 0_u64..200) {
            let places = spread(total, shown);
            prop_assert_eq!(places.len() as u64, shown.min(total));
            if places.len() >= 2 {
                prop_assert_eq!((places[0], places[places.len() - 1]), (0, total - 1));
                let gaps: Vec<u64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
                let (least, most) = (gaps.iter().min().unwrap(), gaps.iter().max().unwrap());
                prop_assert!(*least >= 1 && most - least <= 1, "{:?}", gaps);
            }
        }

        #[test]
        fn rows_can_be_read_again_from_memory_and_from_a_file(count in 0_usize..40, limit in 0_u64..300) {
            let folder = tempfile::tempdir().unwrap();
            let rows: Vec<String> = (0..count).map(|row| format!("{{\"a\":{row}}}")).collect();
            let texts: Vec<&str> = rows.iter().map(String::as_str).collect();
            let mut spooled = spool(limit, Overflow::File, folder.path(), &texts);
            let places: Vec<u64> = (0..count as u64).collect();
            prop_assert_eq!(spooled.rows_at(&places).unwrap(), rows);
        }
    }
}
