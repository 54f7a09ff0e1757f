//! The options, limits, maximum memory and events of a server. docs/serve.md has the memory formula as a table.

use crate::protocol::RefusalCode;
use crate::stream::{MAX_SERVER_BLOCKS_BYTES, MAX_SERVER_FIGURES};
use crate::token::Access;
use pathbench_record::datagram::{LoggedDatagram, MAX_DATAGRAMS};
use pathbench_record::end::{MAX_RECORD_BYTES, MessageRecord, PathSample};
use pathbench_record::pattern::{MAX_MESSAGES, MAX_STREAMS, PatternParameters};
use pathbench_record::text::duration;
use pathbench_record::time::Timestamp;
use pathbench_record::transport::Transport;
use pathbench_transport::{
    ConnectionSnapshot, QUIC_CONNECTION_BYTES, QUIC_HANDSHAKE_BYTES, QUIC_HANDSHAKES,
    QUIC_HANDSHAKES_PER_CLIENT, QUIC_LISTENER_BYTES, QUIC_STREAM_BYTES, QUIC_TEST_BYTES,
    QUIC_UNTRUSTED_SEND_BYTES, QuicLimits, QuicOptions, ServerIdentity, SocketOptions,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Transports and addresses to listen on; port 0 for the kernel's choice. An mptcp listener serves plain
    /// TCP clients as well.
    pub listeners: Vec<(Transport, SocketAddr)>,
    pub limits: ServerLimits,
    pub access: Access,
    pub socket: SocketOptions,
    /// The server's certificate and key. Required for quic and mpquic; with it, tcp and mptcp clients can encrypt, too.
    pub identity: Option<Arc<ServerIdentity>>,
    pub quic: QuicOptions,
    /// Sampling interval of the kernel's figures per path, at least 1 ms.
    pub sample_interval: Duration,
    /// Reads the MPTCP counters that records contain; `None`: records contain none.
    pub mptcp_counters: Option<CounterReader>,
}

/// Reads the current values of [`pathbench_record::end::MPTCP_COUNTERS`] that this kernel has; `None` if it cannot.
/// Called at the beginning of a test and at the end of each stream.
#[derive(Clone)]
pub struct CounterReader(pub Arc<dyn Fn() -> Option<BTreeMap<String, u64>> + Send + Sync>);

impl CounterReader {
    pub(super) fn read(&self) -> Option<BTreeMap<String, u64>> {
        (self.0)()
    }
}

impl fmt::Debug for CounterReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CounterReader")
    }
}

impl ServerOptions {
    /// A server without encryption for all clients, with the default limits and options and a sample every 100 ms.
    pub fn new(listeners: Vec<(Transport, SocketAddr)>) -> Self {
        Self {
            listeners,
            limits: ServerLimits::default(),
            access: Access::Open,
            socket: SocketOptions::default(),
            identity: None,
            quic: QuicOptions::default(),
            sample_interval: Duration::from_millis(100),
            mptcp_counters: None,
        }
    }
}

/// The server's patience exceeds the client's by this time, so that the client reports the failure.
pub(super) const EXTRA_PATIENCE: Duration = Duration::from_secs(2);

/// Limit of records sent at the same time, to one client and to all.
pub(super) const MOST_FETCHES_PER_CLIENT: usize = 4;
pub(super) const MOST_FETCHES: usize = 32;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// With less patience, a short pause of the client's host would end its test.
const LEAST_PATIENCE: Duration = Duration::from_millis(100);

/// The program, its allocator's slack, and the states of probers.
const PROCESS_BYTES: u64 = 48 * MIB;

/// A connection, or a stream over QUIC: used parts of the stacks of three threads, the receive buffer for data, a HELLO
/// as bytes, text and request, the TLS buffers.
const CONNECTION_BYTES: u64 = (3 * 64 + 128 + 3 * 64 + 128) * KIB + QUIC_STREAM_BYTES;

/// A sample of a path, as taken and as stored in the record.
const FIGURE_BYTES: u64 = 2 * 576;
const _: () = assert!(2 * size_of::<PathSample>() <= FIGURE_BYTES as usize);
// A snapshot counts as one figure, too.
const _: () = assert!(2 * size_of::<(Timestamp, ConnectionSnapshot)>() <= FIGURE_BYTES as usize);

/// A message in its core, in the record of its stream and in that of the test; vectors double as they grow.
const MESSAGE_BYTES: u64 = 4 * size_of::<MessageRecord>() as u64;

/// A datagram in its core, in the record of its stream and in that of the test; vectors double as they grow. Duplicates
/// made by the network are an eighth more.
const DATAGRAM_BYTES: u64 = 4 * size_of::<LoggedDatagram>() as u64 * 9 / 8;

/// Datagrams of a QUIC connection that wait for their logs.
const WAITING_DATAGRAMS_BYTES: u64 = 3 * MIB;

/// Messages or datagrams of a test.
const PATTERN_BYTES: u64 = {
    let messages = MAX_MESSAGES as u64 * MESSAGE_BYTES;
    let datagrams = MAX_DATAGRAMS * DATAGRAM_BYTES + WAITING_DATAGRAMS_BYTES;
    if messages > datagrams { messages } else { datagrams }
};

/// One second of a stream in both directions: 100 bins of 8 bytes and 50 silences of 16, twice as vectors double, once
/// more in the record, and 10 KiB as JSON.
const STREAM_SECOND_BYTES: u64 = 20 * KIB;

/// Records of the streams and of the test as JSON, twice as vectors double.
const RECORD_BYTES: u64 = 4 * MAX_RECORD_BYTES as u64;

/// A record during its FETCH, which the registry may have dropped already, and its copy in QUIC's send buffer.
const FETCH_BYTES: u64 = MAX_RECORD_BYTES as u64 + QUIC_UNTRUSTED_SEND_BYTES;

/// Maximum of a test, without its connections and the seconds of its streams.
const TEST_BYTES: u64 = MAX_SERVER_FIGURES as u64 * FIGURE_BYTES
    + PATTERN_BYTES
    + MAX_SERVER_BLOCKS_BYTES as u64
    + RECORD_BYTES
    + QUIC_TEST_BYTES;

/// The maximum memory of a server. Buffers of TCP sockets belong to the kernel and are not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBound {
    pub client_bytes: u64,
    pub server_bytes: u64,
}

/// Bounds of a server. Its memory, threads and time stay within them for any input of peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    pub max_tests: usize,
    pub max_tests_per_client: usize,
    pub max_connections: usize,
    pub max_connections_per_client: usize,
    /// Payload of all tests of one client in one direction, in bits per second; `None`: unlimited.
    pub max_rate_bps: Option<u64>,
    pub max_streams: u32,
    /// Payload of one test in one direction; `None`: limited by the duration only.
    pub max_bytes: Option<u64>,
    /// Payload of all ended tests of one client in both directions in a day, beyond which it begins no further test;
    /// `None`: unlimited.
    pub max_client_bytes_per_day: Option<u64>,
    /// As [`ServerLimits::max_client_bytes_per_day`], of all clients.
    pub max_bytes_per_day: Option<u64>,
    /// Duration of a test, warm-up included. A test by bytes is cut off at this time.
    pub max_duration: Duration,
    pub max_patience: Duration,
    /// Time limit for a connection's request, and for an accepted test to start.
    pub handshake_timeout: Duration,
    pub max_records: usize,
    pub max_record_bytes: usize,
    pub keep_records_for: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_tests: 4,
            max_tests_per_client: usize::MAX,
            max_connections: 256,
            max_connections_per_client: usize::MAX,
            max_rate_bps: None,
            max_streams: MAX_STREAMS,
            max_bytes: None,
            max_client_bytes_per_day: None,
            max_bytes_per_day: None,
            max_duration: Duration::from_secs(3600),
            max_patience: Duration::from_secs(120),
            handshake_timeout: Duration::from_secs(10),
            max_records: 1024,
            max_record_bytes: 64 * 1024 * 1024,
            keep_records_for: Duration::from_secs(600),
        }
    }
}

impl ServerLimits {
    pub fn objection(&self, parameters: &PatternParameters, patience: Duration) -> Option<String> {
        let (streams, bytes) = (parameters.streams(), parameters.nominal_bytes().unwrap_or(0));
        let needed = parameters.nominal_duration().unwrap_or_default();
        if streams > self.max_streams {
            Some(format!("{streams} streams were requested; this server allows {}", self.max_streams))
        } else if !(LEAST_PATIENCE..=self.max_patience).contains(&patience) {
            let [asked, least, most] = [patience, LEAST_PATIENCE, self.max_patience].map(duration);
            Some(format!("a patience of {asked} was requested; this server allows {least} to {most}"))
        } else if let Some(most) = self.max_bytes.filter(|most| bytes > *most) {
            Some(format!("{bytes} bytes were requested; this server allows {most} in each direction"))
        } else if needed > self.max_duration {
            Some(format!(
                "{} were requested (warm-up and wait for the last answers included); this server allows {}",
                duration(needed),
                duration(self.max_duration)
            ))
        } else if let (PatternParameters::Datagrams(datagrams), Some(most)) = (parameters, self.max_rate_bps)
            && datagrams.rate_bps() > most
        {
            // The server would drop those beyond its limit, which the result could not tell from losses of the network.
            let mbps = |bps: u64| format!("{:.3} Mbit/s", bps as f64 / 1e6);
            let (asked, most) = (mbps(datagrams.rate_bps()), mbps(most));
            Some(format!(
                "datagrams at {asked} were requested; this server allows a client {most} in each direction"
            ))
        } else {
            None
        }
    }

    /// Longest time of a test's data, which no client can extend: all its streams begin within the first of the two
    /// timeouts; the second is START's.
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

    /// The maximum memory of a server with these limits and `udp_listeners` UDP addresses.
    pub fn memory_bound(&self, udp_listeners: usize) -> MemoryBound {
        let quic = self.quic();
        let client_bytes = self.bytes_of(
            self.max_connections_per_client.min(self.max_connections),
            quic.connections_per_client.min(quic.connections),
            QUIC_HANDSHAKES_PER_CLIENT,
            self.max_tests_per_client.min(self.max_tests),
            MOST_FETCHES_PER_CLIENT,
        );
        let all = self.bytes_of(
            self.max_connections,
            quic.connections,
            QUIC_HANDSHAKES,
            self.max_tests,
            MOST_FETCHES,
        );
        let once = PROCESS_BYTES.saturating_add(times(udp_listeners, QUIC_LISTENER_BYTES));
        MemoryBound { client_bytes, server_bytes: all.saturating_add(once) }
    }

    fn bytes_of(
        &self,
        connections: usize,
        quic_connections: usize,
        handshakes: usize,
        tests: usize,
        fetches: usize,
    ) -> u64 {
        // Each stream of a test counts as a connection until the test is over.
        let streams = tests.saturating_mul(self.max_streams as usize).min(connections);
        let seconds = self.longest_test(self.max_patience).as_secs() + 1;
        [
            times(connections, CONNECTION_BYTES),
            times(quic_connections, QUIC_CONNECTION_BYTES),
            times(handshakes, QUIC_HANDSHAKE_BYTES),
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

/// Called from the server's threads, which it must not delay.
///
/// Events contain test numbers instead of ids: a test's id permits ending that test and fetching its record.
pub trait ServerObserver: Send + Sync {
    fn on_event(&self, event: &ServerEvent<'_>);
}

/// Serialised as a line of the server's log: the tag `event`, then the fields.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ServerEvent<'a> {
    Started {
        /// Counted from 1.
        #[serde(rename = "test")]
        number: u64,
        pattern: &'static str,
        transport: Transport,
        client: SocketAddr,
    },
    Ended {
        #[serde(rename = "test")]
        number: u64,
        /// Whether every stream completed with every byte confirmed.
        completed: bool,
        sent_bytes: u64,
        received_bytes: u64,
        lasted_ms: u64,
    },
    Refused {
        code: RefusalCode,
        message: &'a str,
        client: SocketAddr,
    },
    TooManyConnections {
        client: SocketAddr,
    },
    /// A thread of one connection panicked: the connection is aborted, its slots are released. The panic hook has
    /// printed the location.
    Panicked {
        /// The part that panicked: `connection`, `stream` or `observer`.
        context: &'static str,
        message: &'a str,
    },
    /// A listener failed and accepts no more connections; the others continue. Only a restart of the server reopens it.
    ListenerFailed {
        transport: Transport,
        address: SocketAddr,
        message: &'a str,
    },
}
