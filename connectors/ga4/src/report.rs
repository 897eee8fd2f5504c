//! A whole report: every page, each row once, in an order that does not change between pages.
//!
//! Rows are parsed while they arrive and handed on one by one. The next pages are asked for while the current one is
//! read, and wait in bounded buffers, so memory does not depend on the number of rows.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use acp_core::{Error, Result};
use acp_google::{Failure, RowSplitter};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::api::{ColumnHeader, Property, ReportEnd, ReportRequest};
use crate::quota::Kind;

/// The most rows Google gives at a time. Smaller pages would be charged quota each.
pub(crate) const PAGE_ROWS: u64 = 250_000;
/// Pages that are on their way while one is read: Google takes seconds before it sends the first byte of a page. The property's
/// bound leaves one place to other calls.
const PAGES_AHEAD: usize = 2;
/// Bytes of a page that wait to be parsed.
const PAGE_BUFFER: usize = 2 * 1024 * 1024;
/// Pages may be smaller than asked for, should Google lower its bound, but not so small that a report takes more pages
/// than this: each one is charged quota.
const PAGES_MAX: u64 = 10;
/// Rows of the smallest page that counts as one.
const SMALL_PAGE_ROWS: u64 = 10_000;
/// How often a page whose connection broke is asked for again, from the row where it broke.
const RESUMES: u32 = 3;

/// A row as it lies in the network buffer.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Row<'a> {
    #[serde(borrow)]
    pub(crate) dimension_values: Vec<RowValue<'a>>,
    #[serde(borrow)]
    pub(crate) metric_values: Vec<RowValue<'a>>,
}

/// A cell. Google leaves an empty text out.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RowValue<'a> {
    #[serde(borrow, default)]
    pub(crate) value: Cow<'a, str>,
}

/// Extracts the rows of a report, at most `limit`, and hands each to `on_row`. What comes back describes the report;
/// its `row_count` is Google's count of all rows.
///
/// The request must order its rows completely, or pages would repeat and lose some. The report is whole or the call
/// fails: rows are counted against what Google says, on every page.
pub(crate) async fn extract(
    property: &Property,
    request: &ReportRequest,
    limit: Option<u64>,
    mut on_row: impl FnMut(&Row<'_>) -> Result<()>,
    mut progress: impl FnMut(u64, Option<u64>),
) -> Result<ReportEnd> {
    let mut pages = Pages::new(property, request, limit.unwrap_or(u64::MAX));
    let mut page = pages.open(0);
    let mut read = 0;
    let mut whole: Option<ReportEnd> = None;
    let mut first_rows: HashSet<Vec<u8>> = HashSet::new();
    loop {
        let before = read;
        let known = whole.as_ref().map(|end: &ReportEnd| end.row_count);
        let mut page_first: Option<Vec<u8>> = None;
        let end = pages
            .read(
                page,
                &mut read,
                |bytes| {
                    if page_first.is_none() {
                        page_first = Some(bytes.to_vec());
                    }
                    let row = serde_json::from_slice(bytes).map_err(|_| unreadable_row())?;
                    on_row(&row)
                },
                |read| progress(read, known),
            )
            .await?;
        if page_first.is_some_and(|row| !first_rows.insert(row)) {
            return Err(inconsistent("Google sent the same page twice"));
        }
        check_kind(&end.kind, "analyticsData#runReport")?;
        check_columns(request, &end)?;
        let expected = end.row_count.min(pages.limit);
        if let Some(known) = known.filter(|known| *known != end.row_count) {
            return Err(inconsistent(&format!(
                "the report changed from {known} to {} rows while it was read",
                end.row_count
            )));
        }
        if whole.is_none() {
            whole = Some(end);
        }
        if read >= expected {
            let Some(whole) = whole else { return Err(inconsistent("Google sent no report")) };
            return match read == expected {
                true => Ok(whole),
                false => Err(inconsistent(&format!("Google announced {expected} rows and sent {read}"))),
            };
        }
        if read == before {
            return Err(inconsistent(&format!("Google announced {expected} rows and stopped after {read}")));
        }
        if pages.opened > PAGES_MAX + expected / SMALL_PAGE_ROWS {
            return Err(inconsistent(&format!("Google sends its {expected} rows in pages that are too small")));
        }
        if read - before >= SMALL_PAGE_ROWS {
            pages.page_rows = pages.page_rows.min(read - before);
        }
        page = pages.next(read, expected);
    }
}

/// An answer that is no report must not pass for an empty one.
pub(crate) fn check_kind(kind: &str, wanted: &str) -> Result<()> {
    match kind == wanted {
        true => Ok(()),
        false => Err(Error::upstream(
            "Google's answer is not a report. Run it again; if it happens again, a proxy may be answering in Google's place.",
        )),
    }
}

/// Values are told apart by their place alone, so the columns must be those that were asked for.
pub(crate) fn check_columns(request: &ReportRequest, end: &ReportEnd) -> Result<()> {
    let same = |asked: &[Value], came: &[ColumnHeader]| {
        asked.len() == came.len() && asked.iter().zip(came).all(|(asked, came)| asked["name"] == came.name)
    };
    if same(&request.dimensions, &end.dimension_headers) && same(&request.metrics, &end.metric_headers) {
        return Ok(());
    }
    Err(inconsistent("Google sent other columns than those that were asked for"))
}

/// The refusal of a row whose values can't be told apart.
pub(crate) fn other_columns() -> Error {
    Error::upstream("A row of Google's report does not have the columns that were asked for. Run it again.")
}

fn inconsistent(what: &str) -> Error {
    Error::upstream(format!(
        "The report is not complete: {what}. Run it again; if the range includes today, end it yesterday, so that it does not change."
    ))
}

fn unreadable_row() -> Error {
    Error::upstream(
        "A row of Google's answer has a form that this version can't read. Run the report again; if it happens again, update the connector.",
    )
}

/// The pages of one report.
struct Pages<'a> {
    property: &'a Property,
    request: &'a ReportRequest,
    limit: u64,
    /// Rows to ask for at a time: fewer where Google sends fewer.
    page_rows: u64,
    /// Pages on their way, in the order in which they will be read.
    ahead: VecDeque<Page>,
    opened: u64,
}

/// A page on its way.
struct Page {
    offset: u64,
    limit: u64,
    chunks: mpsc::UnboundedReceiver<Result<Chunk, Failure>>,
    /// Resolves when the download has its turn among the property's requests.
    began: Option<oneshot::Receiver<()>>,
    _download: Download,
}

/// A download, which ends when nobody wants its page any more.
struct Download(JoinHandle<()>);

impl Drop for Download {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Bytes of a page, and the room they take in its buffer.
struct Chunk {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl<'a> Pages<'a> {
    fn new(property: &'a Property, request: &'a ReportRequest, limit: u64) -> Self {
        Self { property, request, limit, page_rows: PAGE_ROWS, ahead: VecDeque::new(), opened: 0 }
    }

    /// Asks for the page that begins at a row.
    fn open(&mut self, offset: u64) -> Page {
        self.open_rows(offset, self.page_rows.min(self.limit.saturating_sub(offset)), None)
    }

    /// `after`: the beginning of the page before, for one that is fetched ahead. It must not have its turn before that
    /// page: it waits in its buffer until that page is read, and reports that all wait like this would wait for ever.
    fn open_rows(&mut self, offset: u64, limit: u64, after: Option<oneshot::Receiver<()>>) -> Page {
        let (sender, chunks) = mpsc::unbounded_channel();
        let (begin, began) = oneshot::channel();
        let property = self.property.clone();
        let mut request = self.request.clone();
        request.offset = Some(offset).filter(|offset| *offset > 0);
        request.limit = Some(limit);
        self.opened += 1;
        let download = tokio::spawn(async move {
            if let Some(after) = after {
                let _ = after.await;
            }
            if let Err(failure) = download(&property, &request, &sender, begin).await {
                let _ = sender.send(Err(failure));
            }
        });
        Page { offset, limit, chunks, began: Some(began), _download: Download(download) }
    }

    /// The page after `read` rows, which is usually on its way already, and the requests for those after it.
    fn next(&mut self, read: u64, expected: u64) -> Page {
        let ahead = self.ahead.pop_front().filter(|page| page.offset == read);
        // A page that is shorter than asked for moves all that follow.
        if ahead.is_none() {
            self.ahead.clear();
        }
        let mut page = ahead.unwrap_or_else(|| self.open(read));
        while self.ahead.len() < PAGES_AHEAD {
            let last = self.ahead.back_mut().unwrap_or(&mut page);
            let (after, began) = (last.offset + last.limit, last.began.take());
            if after >= expected {
                last.began = began;
                break;
            }
            let page = self.open_rows(after, self.page_rows.min(self.limit - after), began);
            self.ahead.push_back(page);
        }
        page
    }

    /// Reads a page to its end. Where its connection breaks, the rest of it is asked for again.
    async fn read(
        &mut self,
        mut page: Page,
        read: &mut u64,
        mut on_row: impl FnMut(&[u8]) -> Result<()>,
        mut progress: impl FnMut(u64),
    ) -> Result<ReportEnd> {
        let end = page.offset + page.limit;
        for _ in 0..RESUMES {
            match read_once(&mut page, read, &mut on_row, &mut progress).await {
                Err(failure) if failure.is_broken() && *read < end => {
                    // Pages ahead hold places among the property's requests, of which the rest of this one needs one.
                    self.ahead.clear();
                    page = self.open_rows(*read, end - *read, None);
                }
                Err(failure) => return Err(failure.into_acp(&self.property.context)),
                Ok(report) => return Ok(report),
            }
        }
        read_once(&mut page, read, &mut on_row, &mut progress)
            .await
            .map_err(|failure| failure.into_acp(&self.property.context))
    }
}

/// Downloads a page into its buffer and waits when that is full.
async fn download(
    property: &Property,
    request: &ReportRequest,
    sender: &mpsc::UnboundedSender<Result<Chunk, Failure>>,
    begin: oneshot::Sender<()>,
) -> Result<(), Failure> {
    let _open = property.open.acquire().await;
    let _ = begin.send(());
    let room = Arc::new(Semaphore::new(PAGE_BUFFER));
    let url = format!("{}:runReport", property.data_url());
    let mut body = property.admitted(Kind::Core, property.data.post_stream(&url, request)).await?;
    while let Some(bytes) = body.chunk().await? {
        let taken = u32::try_from(bytes.len().min(PAGE_BUFFER)).unwrap_or(u32::MAX);
        let Ok(room) = room.clone().acquire_many_owned(taken).await else { return Ok(()) };
        if sender.send(Ok(Chunk { bytes, _room: room })).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

async fn read_once(
    page: &mut Page,
    read: &mut u64,
    on_row: &mut impl FnMut(&[u8]) -> Result<()>,
    progress: &mut impl FnMut(u64),
) -> Result<ReportEnd, Failure> {
    let mut splitter = RowSplitter::new("rows");
    while let Some(chunk) = page.chunks.recv().await {
        splitter.push(&chunk?.bytes, |row| {
            on_row(row)?;
            *read += 1;
            Ok::<(), Failure>(())
        })?;
        progress(*read);
    }
    acp_google::parse(&splitter.finish()?)
}
