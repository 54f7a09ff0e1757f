//! What makes sense as a parameter of a pattern.

use super::{BulkParameters, InteractiveParameters, PatternParameters, PingParameters};
use crate::pattern::{MAX_MESSAGE_BYTES, MAX_STREAMS, MIN_MESSAGE_BYTES, ParameterError};
use std::time::Duration;

/// Most messages of one side in one test: their records must fit into a RECORD frame.
pub const MAX_MESSAGES: u32 = 36_000;

const SHORTEST: Duration = Duration::from_millis(1);

impl PatternParameters {
    /// Checks every parameter.
    ///
    /// # Errors
    /// All that is wrong, not only the first.
    pub fn validate(&self) -> Result<(), Vec<ParameterError>> {
        let wrong = match self {
            Self::Iperf(iperf) => return iperf.validate(),
            Self::Ping(ping) => ping.mistakes(),
            Self::Bulk(bulk) => bulk.mistakes(),
            Self::Interactive(interactive) => interactive.mistakes(),
        };
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}

impl PingParameters {
    fn mistakes(&self) -> Vec<ParameterError> {
        let mut wrong = Vec::new();
        if self.count == 0 {
            wrong.push(ParameterError::NoRequest);
        }
        wrong.extend(number(self.requests()));
        wrong.extend(sizes([self.request_bytes, self.response_bytes]));
        if self.timeout < SHORTEST {
            wrong.push(ParameterError::Timeout { given: self.timeout });
        }
        wrong
    }
}

impl BulkParameters {
    fn mistakes(&self) -> Vec<ParameterError> {
        let mut wrong = Vec::new();
        if self.streams == 0 || self.streams > MAX_STREAMS {
            wrong.push(ParameterError::Streams { given: self.streams });
        }
        if self.least_bytes() == 0 || self.least_bytes() < u64::from(self.streams) {
            wrong.push(ParameterError::Nothing);
        }
        wrong
    }
}

impl InteractiveParameters {
    fn mistakes(&self) -> Vec<ParameterError> {
        let mut wrong = Vec::new();
        if self.duration < SHORTEST {
            wrong.push(ParameterError::Nothing);
        }
        if self.interval < SHORTEST {
            wrong.push(ParameterError::Interval { given: self.interval });
        } else {
            wrong.extend(number(self.messages()));
        }
        wrong.extend(sizes([self.request_bytes, self.response_bytes]));
        wrong
    }
}

fn number(given: u32) -> Option<ParameterError> {
    (given > MAX_MESSAGES).then_some(ParameterError::Messages { given, most: MAX_MESSAGES })
}

fn sizes(given: [u32; 2]) -> impl Iterator<Item = ParameterError> {
    let (least, most) = (MIN_MESSAGE_BYTES as u32, MAX_MESSAGE_BYTES as u32);
    given
        .into_iter()
        .filter(move |bytes| !(least..=most).contains(bytes))
        .map(move |given| ParameterError::Message { given, least, most })
}
