//! Files of tables that are handed out by a link, once each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use crate::call::lock;

/// How long a link works.
pub(crate) const LINK_TTL: Duration = Duration::from_secs(600);

/// The files that can be fetched, by the secret in their link. Dropping a file removes it.
#[derive(Debug, Default)]
pub(crate) struct Links {
    files: Mutex<HashMap<String, (Instant, NamedTempFile)>>,
}

/// Makes links for the client of one request.
#[derive(Clone, Debug)]
pub(crate) struct LinkMaker {
    /// What a link starts with, as this client reaches the server: `https://<host>/tables/`.
    pub(crate) base: String,
    pub(crate) links: Arc<Links>,
}

/// A link that does not work yet.
#[derive(Debug)]
pub(crate) struct Link {
    secret: String,
    file: NamedTempFile,
    links: Arc<Links>,
}

impl LinkMaker {
    /// A link to a file, and its text.
    pub(crate) fn link(&self, secret: String, file: NamedTempFile) -> (Link, String) {
        let text = format!("{}{secret}", self.base);
        (Link { secret, file, links: self.links.clone() }, text)
    }
}

impl Link {
    /// Makes it work, from now on and for a while.
    pub(crate) fn publish(self) {
        lock(&self.links.files).insert(self.secret, (Instant::now(), self.file));
    }
}

impl Links {
    /// The file behind a link, the first time it is asked for.
    pub(crate) fn take(&self, secret: &str) -> Option<NamedTempFile> {
        let (published, file) = lock(&self.files).remove(secret)?;
        (published.elapsed() < LINK_TTL).then_some(file)
    }

    /// Removes what nobody fetched for `age`.
    pub(crate) fn drop_older(&self, age: Duration) {
        lock(&self.files).retain(|_, (published, _)| published.elapsed() < age);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_works_once_and_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let links = Arc::<Links>::default();
        let maker = LinkMaker { base: "https://localhost/tables/".to_owned(), links: links.clone() };
        for secret in ["one", "two", "three"] {
            let (link, text) = maker.link(secret.to_owned(), NamedTempFile::new_in(folder.path()).unwrap());
            assert_eq!(text, format!("https://localhost/tables/{secret}"));
            assert!(links.take(secret).is_none(), "its answer is not sent yet");
            link.publish();
        }
        assert!(links.take("one").is_some() && links.take("one").is_none());
        links.drop_older(Duration::from_secs(60));
        assert!(links.take("two").is_some());
        links.drop_older(Duration::ZERO);
        assert!(links.take("three").is_none());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
