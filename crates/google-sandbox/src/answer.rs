//! An answer before it becomes an HTTP response, and the response body with its faults.

use std::any::Any;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use serde_json::Value;
use tokio::time::Sleep;

/// A drip sends this many bytes at a time.
const DRIP_BYTES: usize = 256;

/// How long a cut body waits, so that the bytes before the cut reach the client.
const FLUSH: Duration = Duration::from_millis(50);

/// Where the bytes of a body come from.
pub(crate) enum Content {
    /// The whole body; sent with `Content-Length`.
    Whole(Bytes),
    /// Pieces made on demand; sent chunked, never held in memory at once.
    Pieces(Box<dyn Iterator<Item = Bytes> + Send + Sync>),
}

/// An HTTP answer.
pub(crate) struct Answer {
    /// HTTP status.
    pub(crate) status: u16,
    /// Extra headers; `Content-Type` is among them.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) content: Content,
    /// Kept until the last byte has left, such as the permit of a concurrent request.
    pub(crate) held: Option<Box<dyn Any + Send + Sync>>,
}

impl Answer {
    /// A JSON answer.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::raw(status, "application/json; charset=UTF-8", body.to_string())
    }

    /// An answer of any type.
    pub(crate) fn raw(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type".into(), content_type.into())],
            content: Content::Whole(body.into()),
            held: None,
        }
    }

    /// A JSON answer whose body is made piece by piece.
    pub(crate) fn streamed(pieces: impl Iterator<Item = Bytes> + Send + Sync + 'static) -> Self {
        Self {
            status: 200,
            headers: vec![("Content-Type".into(), "application/json; charset=UTF-8".into())],
            content: Content::Pieces(Box::new(pieces)),
            held: None,
        }
    }

    /// Google answers an unknown path, or a known one with the wrong method, with an HTML page: never 405, never JSON.
    pub(crate) fn html_not_found(path: &str) -> Self {
        let shown: String = path.chars().filter(|c| c.is_ascii_alphanumeric() || "/:._-".contains(*c)).collect();
        let page = format!(
            "<!DOCTYPE html>\n<html lang=en>\n<title>Error 404 (Not Found)</title>\n\
             <p><b>404.</b> That is an error.\n<p>There is nothing at <code>{shown}</code> on this server.\n</html>\n"
        );
        Self::raw(404, "text/html; charset=UTF-8", page)
    }
}

/// What goes wrong while a body is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BodyFaults {
    /// Close the connection after this many bytes of the body.
    pub(crate) cut_after: Option<u64>,
    /// Send small pieces with this pause between them.
    pub(crate) drip: Option<Duration>,
}

/// A response body: content, faults, and what must live as long as it.
pub(crate) struct SandboxBody {
    content: Content,
    pending: Bytes,
    faults: BodyFaults,
    sent: u64,
    pause: Option<Pin<Box<Sleep>>>,
    failing: bool,
    _held: Vec<Box<dyn Any + Send + Sync>>,
}

impl SandboxBody {
    /// A body that keeps `held` alive until it is sent or dropped.
    pub(crate) fn new(content: Content, faults: BodyFaults, held: Vec<Box<dyn Any + Send + Sync>>) -> Self {
        Self { content, pending: Bytes::new(), faults, sent: 0, pause: None, failing: false, _held: held }
    }

    fn next_piece(&mut self) -> Option<Bytes> {
        if self.pending.is_empty() {
            self.pending = match &mut self.content {
                Content::Whole(bytes) => std::mem::take(bytes),
                Content::Pieces(pieces) => pieces.next().unwrap_or_default(),
            };
        }
        if self.pending.is_empty() {
            return None;
        }
        let mut take = self.pending.len();
        if self.faults.drip.is_some() {
            take = take.min(DRIP_BYTES);
        }
        if let Some(cut) = self.faults.cut_after {
            let left = usize::try_from(cut.saturating_sub(self.sent)).unwrap_or(usize::MAX);
            take = take.min(left);
        }
        let piece = self.pending.split_to(take);
        self.sent += piece.len() as u64;
        Some(piece)
    }
}

impl Body for SandboxBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        if let Some(pause) = &mut this.pause {
            if pause.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            this.pause = None;
        }
        if this.failing {
            return Poll::Ready(Some(Err(io::Error::other("cut by a sandbox fault"))));
        }
        match this.next_piece() {
            None => Poll::Ready(None),
            Some(piece) if piece.is_empty() => {
                // The cut: let what was sent reach the client first, then fail.
                this.failing = true;
                let mut pause = Box::pin(tokio::time::sleep(FLUSH));
                let _ = pause.as_mut().poll(cx);
                this.pause = Some(pause);
                Poll::Pending
            }
            Some(piece) => {
                this.pause = this.faults.drip.map(|pause| Box::pin(tokio::time::sleep(pause)));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact((bytes.len() + self.pending.len()) as u64),
            Content::Pieces(_) => SizeHint::default(),
        }
    }
}
