//! The memory of a server at most, derived from its limits. docs/serve.md has the formula as a table.

use super::Limits;
use super::fetch::{MOST as MOST_FETCHES, MOST_PER_CLIENT as MOST_FETCHES_PER_CLIENT};
use crate::stream::{MAX_SERVER_BLOCKS_BYTES, MAX_SERVER_FIGURES};
use pathbench_record::end::{MAX_RECORD_BYTES, MessageRecord};
use pathbench_record::pattern::MAX_MESSAGES;
use pathbench_transport::{
    QUIC_CONNECTION_BYTES, QUIC_LISTENER_BYTES, QUIC_STREAM_BYTES, QUIC_TEST_BYTES, QUIC_UNTRUSTED_SEND_BYTES,
};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// The program, its allocator's slack, and the states of probers.
const PROCESS_BYTES: u64 = 48 * MIB;

/// A connection, or a stream over QUIC: used parts of the stacks of three threads, the receive buffer for data, a HELLO as
/// bytes, text and request, the buffers of TLS.
const CONNECTION_BYTES: u64 = (3 * 64 + 128 + 3 * 64 + 128) * KIB + QUIC_STREAM_BYTES;

/// A sample of a path: as it was taken, and as it is kept in the record.
const FIGURE_BYTES: u64 = 2 * 512;

/// A message: in its core, in the record of its stream, and in that of the test; vectors double as they grow.
const MESSAGE_BYTES: u64 = 4 * size_of::<MessageRecord>() as u64;

/// A second of a stream in both directions: 100 bins of 8 bytes and 50 silences of 16, twice as vectors double, once more
/// in the record, and 10 KiB as JSON.
const STREAM_SECOND_BYTES: u64 = 20 * KIB;

/// Records as JSON, those of the streams and that of the test: twice as vectors double.
const RECORD_BYTES: u64 = 4 * MAX_RECORD_BYTES as u64;

/// A record that is being handed out, forgotten meanwhile maybe, and its copy in QUIC's send buffer.
const FETCH_BYTES: u64 = MAX_RECORD_BYTES as u64 + QUIC_UNTRUSTED_SEND_BYTES;

/// A test at most, its connections and the seconds of its streams not included.
const TEST_BYTES: u64 = MAX_SERVER_FIGURES as u64 * FIGURE_BYTES
    + MAX_MESSAGES as u64 * MESSAGE_BYTES
    + MAX_SERVER_BLOCKS_BYTES as u64
    + RECORD_BYTES
    + QUIC_TEST_BYTES;

/// The memory of a server at most. Buffers of TCP sockets belong to the kernel and are not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBound {
    pub client_bytes: u64,
    pub server_bytes: u64,
}

impl Limits {
    /// The memory at most of a server with these limits that listens on so many UDP addresses.
    pub fn memory_bound(&self, udp_listeners: usize) -> MemoryBound {
        let quic = self.quic();
        let client_bytes = self.bytes_of(
            self.max_connections_per_client.min(self.max_connections),
            quic.connections_per_client.min(quic.connections),
            self.max_tests_per_client.min(self.max_tests),
            MOST_FETCHES_PER_CLIENT,
        );
        let all = self.bytes_of(self.max_connections, quic.connections, self.max_tests, MOST_FETCHES);
        let once = PROCESS_BYTES.saturating_add(times(udp_listeners, QUIC_LISTENER_BYTES));
        MemoryBound { client_bytes, server_bytes: all.saturating_add(once) }
    }

    fn bytes_of(&self, connections: usize, quic_connections: usize, tests: usize, fetches: usize) -> u64 {
        // Each stream of a test counts as a connection until the test is over.
        let streams = tests.saturating_mul(self.max_streams as usize).min(connections);
        let seconds = self.longest_test(self.max_patience).as_secs() + 1;
        [
            times(connections, CONNECTION_BYTES),
            times(quic_connections, QUIC_CONNECTION_BYTES),
            times(tests, TEST_BYTES),
            times(streams, seconds.saturating_mul(STREAM_SECOND_BYTES)),
            times(fetches, FETCH_BYTES),
            times(self.max_record_bytes, 1),
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

fn times(count: usize, bytes: u64) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX).saturating_mul(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::end::PathSample;
    use pathbench_record::time::Timestamp;
    use pathbench_transport::ConnectionSnapshot;
    use std::time::Duration;

    #[test]
    fn the_bytes_of_a_sample_cover_its_types() {
        let figure = FIGURE_BYTES as usize / 2;
        assert!(size_of::<PathSample>() <= figure, "{}", size_of::<PathSample>());
        // Counts as one figure, too.
        assert!(size_of::<(Timestamp, ConnectionSnapshot)>() <= figure);
    }

    #[test]
    fn each_limit_raises_the_bound() {
        let limits = Limits { max_connections_per_client: 8, max_tests_per_client: 1, ..Limits::default() };
        let bound = limits.memory_bound(1);
        assert!(bound.client_bytes < bound.server_bytes, "{bound:?}");
        for more in [
            Limits { max_tests: limits.max_tests + 1, ..limits.clone() },
            Limits { max_connections: limits.max_connections + 1, ..limits.clone() },
            Limits { max_duration: limits.max_duration + Duration::from_secs(1), ..limits.clone() },
            Limits { max_patience: limits.max_patience + Duration::from_secs(1), ..limits.clone() },
            Limits { max_record_bytes: limits.max_record_bytes + 1, ..limits.clone() },
        ] {
            assert!(more.memory_bound(1).server_bytes > bound.server_bytes, "{more:?}");
        }
        assert!(limits.memory_bound(2).server_bytes > bound.server_bytes);
    }
}
