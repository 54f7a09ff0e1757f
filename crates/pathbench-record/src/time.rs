//! Timestamps of the monotonic clock, and the trait through which the binary provides its clock.

use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// A timestamp of the host's monotonic clock (`CLOCK_MONOTONIC`), in nanoseconds.
///
/// All processes of a lab share the host's monotonic clock across namespaces, so timestamps of different lab hosts are
/// directly comparable. Timestamps of different hosts are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Timestamp {
    nanos: u64,
}

impl Timestamp {
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// Nanoseconds since the clock's origin.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.nanos
    }

    /// Time since `earlier`; zero if `earlier` is later.
    #[inline]
    pub const fn duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos.saturating_sub(earlier.nanos))
    }

    /// The timestamp `ms` milliseconds later, or earlier if negative; unchanged for NaN.
    pub fn plus_ms(self, ms: f64) -> Self {
        let distance = Duration::from_nanos((ms.abs() * 1e6).round() as u64);
        if ms < 0.0 { self - distance } else { self + distance }
    }

    /// Milliseconds from `origin` to this timestamp, negative if it is before `origin`.
    pub fn ms_from(self, origin: Self) -> f64 {
        (i128::from(self.nanos) - i128::from(origin.nanos)) as f64 / 1e6
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    #[inline]
    fn add(self, rhs: Duration) -> Self {
        Self { nanos: self.nanos.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)) }
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    #[inline]
    fn sub(self, rhs: Duration) -> Self {
        Self { nanos: self.nanos.saturating_sub(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)) }
    }
}

/// A source of monotonic time, and the only way to wait for a time in all crates below the binary.
///
/// The binary implements it with the real clock; simulated tests implement it with a virtual one.
pub trait Clock: Debug + Send + Sync {
    fn now(&self) -> Timestamp;

    /// Blocks the calling thread until `deadline`, or not at all if it has passed.
    fn sleep_until(&self, deadline: Timestamp);

    /// The timestamp of a recent time of the system clock (`CLOCK_REALTIME`), with which the kernel stamps arriving packets;
    /// `None` if this clock does not know the system clock, or if that was set since.
    fn convert_system_time(&self, _since_epoch: Duration) -> Option<Timestamp> {
        None
    }
}

/// A monotonic clock that also knows the date.
pub trait WallClock: Clock {
    /// The time since the Unix epoch, for dates in results; never used to measure a duration.
    fn since_epoch(&self) -> Duration;

    fn unix_ms(&self) -> u64 {
        u64::try_from(self.since_epoch().as_millis()).unwrap_or(u64::MAX)
    }

    fn unix_seconds(&self) -> u64 {
        self.since_epoch().as_secs()
    }

    /// This moment as RFC 3339.
    fn rfc3339(&self) -> String {
        rfc3339_from_unix(i64::try_from(self.unix_seconds()).unwrap_or_default())
    }

    /// Nanoseconds from the monotonic clock to the Unix epoch, for the dates in captures; as accurate as the system time.
    fn wall_offset_ns(&self) -> i64 {
        let offset = self.since_epoch().as_nanos() as i128 - i128::from(self.now().as_nanos());
        i64::try_from(offset).unwrap_or_default()
    }
}

/// The clock that a program passes to its parts.
pub type SharedClock = Arc<dyn WallClock>;

/// `2026-11-21T20:33:54Z` for a number of seconds since the Unix epoch (RFC 3339, UTC), from 1970 to 9999.
pub fn rfc3339_from_unix(seconds: i64) -> String {
    let seconds = seconds.clamp(0, 253_402_300_799).unsigned_abs();
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

/// The Unix time of a date in RFC 3339, UTC, in seconds: the inverse of [`rfc3339_from_unix`]. `None` for another text.
pub fn unix_from_rfc3339(text: &str) -> Option<u64> {
    let time = humantime::parse_rfc3339(text).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}
