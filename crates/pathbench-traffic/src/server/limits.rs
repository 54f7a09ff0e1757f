//! What a server grants.

use pathbench_record::pattern::{MAX_STREAMS, PatternParameters};
use pathbench_transport::QuicLimits;
use std::time::Duration;

/// The server is this much more patient than the client, so that the client is the one to say what happened.
pub(super) const EXTRA_PATIENCE: Duration = Duration::from_secs(2);

/// Bounds of a server. Whatever peers send, its memory, threads and time stay within them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub max_tests: usize,
    pub max_tests_per_client: usize,
    pub max_connections: usize,
    pub max_connections_per_client: usize,
    /// Payload of all tests of one client in one direction, in bits per second; `None`: as fast as it goes.
    pub max_rate_bps: Option<u64>,
    pub max_streams: u32,
    /// Payload of one test in one direction; `None`: as much as fits into the time.
    pub max_bytes: Option<u64>,
    /// Duration of a test, warm-up included. A test by bytes is cut off at this time.
    pub max_duration: Duration,
    /// Longest patience a client may ask for.
    pub max_patience: Duration,
    /// Time for a connection to say what it wants, and for a test to start once it is accepted.
    pub handshake_timeout: Duration,
    pub max_records: usize,
    pub max_record_bytes: usize,
    /// How long a record is kept after its test.
    pub keep_records_for: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_tests: 4,
            max_tests_per_client: usize::MAX,
            max_connections: 256,
            max_connections_per_client: usize::MAX,
            max_rate_bps: None,
            max_streams: MAX_STREAMS,
            max_bytes: None,
            max_duration: Duration::from_secs(3600),
            max_patience: Duration::from_secs(120),
            handshake_timeout: Duration::from_secs(10),
            max_records: 1024,
            max_record_bytes: 64 * 1024 * 1024,
            keep_records_for: Duration::from_secs(600),
        }
    }
}

impl Limits {
    /// Why a test exceeds a limit, in words; `None` when it does not.
    pub fn objection(&self, parameters: &PatternParameters, patience: Duration) -> Option<String> {
        let streams = parameters.streams();
        if streams > self.max_streams {
            return Some(format!(
                "{streams} streams were asked for; this server allows {}",
                self.max_streams
            ));
        }
        if patience > self.max_patience || patience < Duration::from_millis(100) {
            return Some(format!(
                "a patience of {} s was asked for; this server allows 0.1 to {} s",
                patience.as_secs_f64(),
                self.max_patience.as_secs_f64()
            ));
        }
        if let (Some(asked), Some(most)) = (parameters.nominal_bytes(), self.max_bytes)
            && asked > most
        {
            return Some(format!(
                "{asked} bytes were asked for; this server allows {most} in each direction"
            ));
        }
        let asked = parameters.nominal_duration()?;
        (asked > self.max_duration).then(|| {
            format!(
                "{} s were asked for (warm-up and wait for the last answers included); this server allows {} s",
                asked.as_secs_f64(),
                self.max_duration.as_secs_f64()
            )
        })
    }

    /// How long the data of a test takes at most, which no client can extend: all its streams begin within the first of
    /// the two timeouts, the second is START's.
    pub(super) fn longest_test(&self, patience: Duration) -> Duration {
        let waits = self.handshake_timeout.saturating_add(patience).saturating_add(EXTRA_PATIENCE);
        self.max_duration.saturating_add(waits.saturating_mul(2))
    }

    pub(crate) fn quic(&self) -> QuicLimits {
        QuicLimits {
            connections: self.max_connections,
            connections_per_client: self
                .max_connections_per_client
                .min(QuicLimits::default().connections_per_client),
            tests: self.max_tests,
            tests_per_client: self.max_tests_per_client,
        }
    }

    pub fn stream_ceiling(&self, parameters: &PatternParameters) -> Option<u64> {
        self.max_bytes.map(|most| most.div_ceil(u64::from(parameters.streams().max(1))))
    }
}
