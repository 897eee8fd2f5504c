//! Files for Google, by its resumable protocol ("Resumable uploads"): in parts, each of which is sent again from where
//! Google has it when the connection breaks.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use acp_core::Error;
use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_RANGE, LOCATION, RANGE};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::{Session, parse, to_json};
use crate::error::Failure;
use crate::retry::Waits;

/// Bytes of a part: a multiple of 256 KiB, as the protocol wants it.
const PART: u64 = 8 << 20;

/// How much of the file Google has.
enum Sent<T> {
    /// All of it, and this is the answer.
    All(T),
    /// The first bytes.
    Until(u64),
}

impl Session {
    /// Sends a file of `length` bytes with its `metadata`, as the method at `url` takes both, and reads the answer. `progress`
    /// hears how many bytes Google has.
    pub async fn upload<T: DeserializeOwned>(
        &self,
        url: &str,
        metadata: &impl Serialize,
        (file, length): (&mut File, u64),
        mut progress: impl FnMut(u64),
    ) -> Result<T, Failure> {
        let mut waits = Waits::new(self.timing());
        let begin = self.outgoing(Method::POST, url, Some(to_json(metadata)?))?;
        let begin = begin
            .with_header("x-upload-content-type", "application/octet-stream".to_owned())
            .with_header("x-upload-content-length", length.to_string());
        let place = self.open(&begin, &mut waits).await?.header(LOCATION).ok_or_else(|| {
            Error::upstream("Google did not say where to send the file. Try again; if it happens again, report it.")
        })?;
        let mut sent = 0;
        loop {
            let mut part = vec![0; usize::try_from((length - sent).min(PART)).unwrap_or_default()];
            let read = file.seek(SeekFrom::Start(sent)).and_then(|_| file.read_exact(&mut part));
            read.map_err(|error| {
                Error::upstream(format!("The rows that were put aside can't be read: {error}. Try again."))
            })?;
            let range = match part.len() as u64 {
                0 => format!("bytes */{length}"),
                bytes => format!("bytes {sent}-{}/{length}", sent + bytes - 1),
            };
            let answer = match self.part(&place, part.into(), range).await {
                Ok(answer) => answer,
                Err(failure) => {
                    waits.pause(failure).await?;
                    self.part(&place, Bytes::new(), format!("bytes */{length}")).await?
                }
            };
            match answer {
                Sent::All(answer) => return Ok(answer),
                Sent::Until(bytes) if bytes <= length => sent = bytes,
                Sent::Until(_) => {
                    return Err(Error::upstream("Google says it has more of the file than was sent. Try again.").into());
                }
            }
            progress(sent);
        }
    }

    /// Sends a part, or asks with an empty one how much has arrived.
    async fn part<T: DeserializeOwned>(&self, place: &str, part: Bytes, range: String) -> Result<Sent<T>, Failure> {
        let outgoing = self.outgoing(Method::PUT, place, Some(part))?.with_header(CONTENT_RANGE.as_str(), range);
        let answer = self.open(&outgoing, &mut Waits::none(self.timing())).await?;
        if !answer.is_partial() {
            return Ok(Sent::All(parse(&answer.whole().await?)?));
        }
        // Without a range nothing has arrived.
        let until = answer.header(RANGE).and_then(|range| range.rsplit('-').next()?.parse::<u64>().ok());
        Ok(Sent::Until(until.map_or(0, |last| last + 1)))
    }
}
