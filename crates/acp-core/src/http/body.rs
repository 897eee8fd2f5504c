//! Bodies of answers: the library's event stream with the tables in their places, and files.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use tempfile::NamedTempFile;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::sessions::Open;
use crate::outgoing::{Outbox, Piece, Splicer, Text};

const CHUNK_BYTES: usize = 128 * 1024;

/// Writes the tables of `outbox` in the places of their marks. The request is open until the last byte is handed over,
/// or its client goes away.
pub(super) fn with_tables(response: impl IntoResponse, outbox: Arc<Outbox>, open: Option<Open>) -> Response {
    let response = response.into_response();
    if response.status() != StatusCode::OK {
        return response;
    }
    let (parts, body) = response.into_parts();
    let body = WithTables {
        body: body.into_data_stream(),
        splicer: Splicer::default(),
        pieces: VecDeque::new(),
        file: None,
        ended: false,
        outbox,
        _open: open,
    };
    let body = Body::from_stream(futures::stream::unfold(body, |mut body| async {
        let next = body.next().await?;
        Some((next, body))
    }));
    Response::from_parts(parts, body)
}

struct WithTables {
    body: BodyDataStream,
    splicer: Splicer,
    /// What comes next.
    pieces: VecDeque<Piece>,
    /// The table that is being read.
    file: Option<TableFile>,
    ended: bool,
    outbox: Arc<Outbox>,
    _open: Option<Open>,
}

impl WithTables {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(file) = &mut self.file {
                match file.next(true).await {
                    Some(chunk) => return Some(chunk),
                    None => self.file = None,
                }
            }
            match self.pieces.pop_front() {
                Some(Piece::Text(text)) => return Some(Ok(text)),
                Some(Piece::Table(table)) => match table.send() {
                    Text::Memory(text) => return Some(Ok(text.into())),
                    Text::File(file) => match TableFile::open(file) {
                        Ok(file) => self.file = Some(file),
                        Err(error) => return Some(Err(error)),
                    },
                },
                None if self.ended => return None,
                None => match self.body.next().await {
                    Some(Ok(chunk)) => {
                        let find = &mut |mark: &str| self.outbox.take(mark);
                        self.pieces.extend(self.splicer.push(chunk, find));
                    }
                    Some(Err(error)) => return Some(Err(io::Error::other(error))),
                    None => {
                        self.ended = true;
                        let rest = self.splicer.finish();
                        if !rest.is_empty() {
                            self.pieces.push_back(Piece::Text(rest));
                        }
                    }
                },
            }
        }
    }
}

/// The answers to the messages of a batch: one event stream, in which events of several streams follow each other.
/// Whatever is no stream becomes an event. Where nothing in the batch asked for an answer, there is none.
pub(super) fn of_batch(answers: Vec<Response>) -> Response {
    let mut streams: Vec<Option<BodyDataStream>> = Vec::new();
    for answer in answers {
        let body = match answer.status() {
            StatusCode::ACCEPTED => continue,
            StatusCode::OK => answer.into_body(),
            // What is no message is about the headers, which all of the batch share.
            _ if answer.headers().get(header::CONTENT_TYPE).is_none_or(|kind| kind != "application/json") => {
                return answer;
            }
            _ => Body::from_stream(event(answer.into_body())),
        };
        streams.push(Some(body.into_data_stream()));
    }
    if streams.is_empty() {
        return StatusCode::ACCEPTED.into_response();
    }
    // The stream in the middle of whose event we are.
    let mut inside = None;
    let merged = futures::stream::poll_fn(move |context| {
        for (place, slot) in streams.iter_mut().enumerate() {
            let Some(stream) = slot.as_mut().filter(|_| inside.is_none_or(|inside| inside == place)) else { continue };
            match stream.poll_next_unpin(context) {
                Poll::Pending => {}
                Poll::Ready(None) => {
                    *slot = None;
                    if inside.take().is_some() {
                        // The ones before were not asked.
                        context.waker().wake_by_ref();
                    }
                }
                Poll::Ready(Some(chunk)) => {
                    inside = chunk.as_ref().is_ok_and(|chunk| !chunk.ends_with(b"\n\n")).then_some(place);
                    return Poll::Ready(Some(chunk));
                }
            }
        }
        if streams.iter().all(Option::is_none) { Poll::Ready(None) } else { Poll::Pending }
    });
    let head = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (head, Body::from_stream(merged)).into_response()
}

/// A message as an event.
fn event(message: Body) -> impl Stream<Item = Result<Bytes, axum::Error>> {
    let around = |text: &'static [u8]| futures::stream::iter([Ok(Bytes::from_static(text))]);
    around(b"data: ").chain(message.into_data_stream()).chain(around(b"\n\n"))
}

/// The file of a table, which is removed once it is read.
pub(super) fn of_file(file: NamedTempFile) -> io::Result<Body> {
    let file = TableFile::open(file)?;
    Ok(Body::from_stream(futures::stream::unfold(file, |mut file| async {
        let next = file.next(false).await?;
        Some((next, file))
    })))
}

struct TableFile {
    reader: File,
    _removed: NamedTempFile,
}

impl TableFile {
    fn open(file: NamedTempFile) -> io::Result<Self> {
        let mut reader = File::from_std(file.reopen()?);
        reader.set_max_buf_size(CHUNK_BYTES);
        Ok(Self { reader, _removed: file })
    }

    async fn next(&mut self, one_line: bool) -> Option<io::Result<Bytes>> {
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            match self.reader.read_buf(&mut chunk).await {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
            if one_line {
                chunk.retain(|byte| *byte != b'\n');
            }
            if !chunk.is_empty() {
                return Some(Ok(chunk.into()));
            }
        }
    }
}
