//! What time it is, for the whole server: replaceable, so that dates can be tested.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};

/// The clock of a server.
#[derive(Clone, Copy, Debug, Default)]
pub enum Clock {
    /// The machine's clock.
    #[default]
    System,
    /// A clock that stands still.
    Fixed(Timestamp),
}

impl Clock {
    /// Now.
    pub fn now(self) -> Timestamp {
        match self {
            Self::System => Timestamp::now(),
            Self::Fixed(timestamp) => timestamp,
        }
    }

    /// Today in a time zone.
    pub fn today(self, zone: &TimeZone) -> Date {
        zone.to_datetime(self.now()).date()
    }

    /// Now as `system_info.fetched_at` has it: ISO 8601, UTC, milliseconds.
    pub(crate) fn now_text(self) -> String {
        let now = self.now();
        let now = now.round(Unit::Millisecond).unwrap_or(now);
        format!("{now:.3}")
    }
}
