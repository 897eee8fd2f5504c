//! The server side of ACP.

mod credentials;
mod error;

pub use credentials::{Credentials, Identity, Secret};
pub use error::{Error, Result};
