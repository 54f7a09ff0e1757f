//! Points in time on the monotonic clock, and the trait through which the outermost shell lends its clock.

use serde::{Deserialize, Serialize};
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point on the machine's monotonic clock (`CLOCK_MONOTONIC`), in nanoseconds.
///
/// All processes of a lab share the machine's monotonic clock, whatever namespaces they live in, so
/// timestamps of different lab hosts compare directly. Timestamps of different machines do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Timestamp {
    nanos: u64,
}

impl Timestamp {
    /// The timestamp `nanos` nanoseconds after the clock's origin.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// Nanoseconds since the clock's origin.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.nanos
    }

    /// Time passed since `earlier`; zero when `earlier` is in fact later.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos.saturating_sub(earlier.nanos))
    }

    /// The point `ms` milliseconds later, earlier when negative; this one for what is no number.
    pub fn plus_ms(self, ms: f64) -> Self {
        let distance = Duration::from_nanos((ms.abs() * 1e6).round() as u64);
        if ms < 0.0 { self - distance } else { self + distance }
    }

    /// Milliseconds from `origin` to this point, negative when it lies before `origin`.
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

/// A source of monotonic time, and the only way below the binary to wait for a point in time.
///
/// The binary implements it with the real clock; simulated tests implement it with a virtual one.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    /// Blocks the calling thread until `deadline`, or not at all when it has passed.
    fn sleep_until(&self, deadline: Timestamp);
}
