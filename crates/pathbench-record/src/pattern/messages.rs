//! The parameters of the patterns of messages: `ping` and `interactive`.

use super::error::{ParameterError, SHORTEST, number_error, size_errors};
use crate::units::milliseconds;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Parameters of `ping`. Defaults: `MultipathTester`'s five GETs of 10 bytes, 100 ms apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PingParameters {
    pub count: u32,
    /// Additional first requests that do not count, because of the path's state and the server's caches.
    pub warm_up: u32,
    /// Interval of requests; longer if an answer takes longer.
    #[serde(rename = "interval_ms", with = "milliseconds")]
    pub interval: Duration,
    /// Size of a request: its frame's body, of which the sequence number takes four bytes.
    pub request_bytes: u32,
    pub response_bytes: u32,
    /// A request whose answer takes longer counts as lost.
    #[serde(rename = "timeout_ms", with = "milliseconds")]
    pub timeout: Duration,
}

impl Default for PingParameters {
    fn default() -> Self {
        Self {
            count: 5,
            warm_up: 1,
            interval: Duration::from_millis(100),
            request_bytes: 10,
            response_bytes: 10,
            timeout: Duration::from_secs(3),
        }
    }
}

impl PingParameters {
    /// Number of requests, those of the warm-up included.
    pub const fn requests(&self) -> u32 {
        self.count.saturating_add(self.warm_up)
    }

    pub(super) fn errors(&self) -> Vec<ParameterError> {
        let mut wrong = Vec::new();
        if self.count == 0 {
            wrong.push(ParameterError::NoRequest);
        }
        wrong.extend(number_error(self.requests()));
        wrong.extend(size_errors([self.request_bytes, self.response_bytes]));
        if self.timeout < SHORTEST {
            wrong.push(ParameterError::Timeout { given: self.timeout });
        }
        wrong
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InteractiveParameters {
    #[serde(rename = "duration_ms", with = "milliseconds")]
    pub duration: Duration,
    #[serde(rename = "interval_ms", with = "milliseconds")]
    pub interval: Duration,
    /// Size of a request: its frame's body, of which the sequence number takes four bytes.
    pub request_bytes: u32,
    pub response_bytes: u32,
    /// Limit of the wait for the last acknowledgements after the last request.
    #[serde(rename = "linger_ms", with = "milliseconds")]
    pub linger: Duration,
}

impl Default for InteractiveParameters {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(10),
            interval: Duration::from_millis(100),
            request_bytes: 2_000,
            response_bytes: 750,
            linger: Duration::from_secs(5),
        }
    }
}

impl InteractiveParameters {
    /// Number of requests of each side: one at the start, and one per interval until the end of the duration.
    pub fn messages(&self) -> u32 {
        let interval = self.interval.as_nanos().max(1);
        u32::try_from(self.duration.as_nanos().div_ceil(interval)).unwrap_or(u32::MAX)
    }

    pub(super) fn errors(&self) -> Vec<ParameterError> {
        let mut wrong = Vec::new();
        if self.interval < SHORTEST {
            wrong.push(ParameterError::Interval { given: self.interval });
        } else {
            wrong.extend(number_error(self.messages()));
        }
        wrong.extend(size_errors([self.request_bytes, self.response_bytes]));
        wrong
    }
}
