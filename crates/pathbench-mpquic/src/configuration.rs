//! The library's configuration of endpoints and connections.

use super::options::QuicOptions;
#[cfg(feature = "qlog")]
use super::qlog::QlogDirectory;
use super::scheduler::{Board, CongestionControl, SchedulerFactory};
use super::send_buffer::SendWindow;
use super::stream_meter::StreamMeter;
use super::time::Epoch;
use noq_proto::crypto;
use noq_proto::{EndpointConfig, MtuDiscoveryConfig, RandomConnectionIdGenerator, TransportConfig, VarInt};
use pathbench_record::connection::Scheduler;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// What a stream may have under way. More than 2 MB and the library ends connections that have lost much at once
/// ("too many gaps in stream buffer").
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
/// Length of connection IDs. Every packet carries one: with the library's 8 bytes, 0.3 % less payload fits into 1500 bytes.
const CONNECTION_ID_BYTES: usize = 4;
/// Between two stateless resets (RFC 9000, section 10.3): they answer packets of unknown connections, whose sources can be
/// forged.
const RESET_INTERVAL: Duration = Duration::from_secs(1);
/// What all streams of a connection may have under way.
pub const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// The same at a server that has not admitted a test on the connection yet: a few requests.
pub const FIRST_WINDOW_BYTES: u32 = 128 << 10;
/// Streams that a peer may have open at once.
const STREAMS: u32 = 128;
/// Paths of a connection at once.
pub const PATHS: u32 = 8;
/// A connection on which nothing is heard is dead after this.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Something is sent at least this often, so that a connection at rest is not taken for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Largest UDP payload taken from a peer (RFC 9000 section 18.2).
const LARGEST_PAYLOAD_BYTES: u16 = 65_527;
/// Assumed of a path before the first measurement. RFC 9002 section 6.2.2 recommends 333 ms; with it a path whose first
/// packet is lost, as is easily done on an interface that has just come up, is asked again after a second only.
const INITIAL_RTT: Duration = Duration::from_millis(100);
/// Datagrams on loopback could be 64 KiB long; nothing is gained by more than jumbo frames have.
const LARGEST_MTU_BYTES: u32 = 9216;
/// A path whose MTU has grown is found out this long after the last search at the latest. RFC 8899 section 5.1.1 has
/// 600 s, for connections that live for hours; a measurement is over before. A search that finds nothing new costs three
/// probes for each halving of what lies between the path's and the interface's MTU: 0.1 Mbit/s for two seconds on a
/// path of 1500 bytes behind an interface of 9000, and nothing where both are the same.
const MTU_SEARCH_INTERVAL: Duration = Duration::from_secs(10);
/// After the path MTU was found too large it is searched again from 1200 bytes (RFC 8899 section 4.3), this much later:
/// congestion can look alike, and then there is no hurry.
const MTU_BLACK_HOLE_COOLDOWN: Duration = Duration::from_secs(1);
/// A path MTU is found to the byte (the library's own default leaves the last 20 to chance).
const MTU_RESOLUTION_BYTES: u16 = 1;
/// IP and UDP header in front of a datagram.
const V4_HEADERS_BYTES: u32 = 28;
const V6_HEADERS_BYTES: u32 = 48;

/// What observes and steers one connection from within the library.
#[derive(Debug)]
pub struct Instruments {
    pub(crate) board: Board,
    pub(crate) meter: StreamMeter,
}

impl Instruments {
    pub fn new(scheduler: &Scheduler) -> Self {
        Self { board: Board::new(scheduler.clone()), meter: StreamMeter::default() }
    }

    /// The connection's cryptography, with its stream data counted.
    pub fn at_client(&self, crypto: Arc<dyn crypto::ClientConfig>) -> Arc<dyn crypto::ClientConfig> {
        self.meter.at_client(crypto)
    }

    /// The same for a server's.
    pub fn at_server(&self, crypto: Arc<dyn crypto::ServerConfig>) -> Arc<dyn crypto::ServerConfig> {
        self.meter.at_server(crypto)
    }
}

#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    pub quic: QuicOptions,
    pub control: CongestionControl,
    /// Ask for, or agree to, several paths.
    pub multipath: bool,
    /// The largest MTU of the interfaces that may carry it.
    pub mtu_bytes: u32,
    /// What is taken from the application beyond what was acknowledged; follows the congestion windows when absent.
    pub send_buffer_bytes: Option<u64>,
    /// What all streams of a connection may have under way at first: [`CONNECTION_WINDOW_BYTES`] or
    /// [`FIRST_WINDOW_BYTES`].
    pub receive_window_bytes: u32,
}

impl ConnectionSettings {
    /// The library's configuration of one connection with `peer`.
    #[cfg_attr(not(feature = "qlog"), expect(unused_variables, reason = "only qlog needs the epoch"))]
    pub fn transport(&self, instruments: &Instruments, epoch: Epoch, peer: IpAddr) -> TransportConfig {
        let board = &instruments.board;
        board.lend_receive_window(self.receive_window_bytes.into());
        let mut config = TransportConfig::default();
        config
            .max_concurrent_bidi_streams(STREAMS.into())
            .max_concurrent_uni_streams(0_u32.into())
            .stream_receive_window(STREAM_WINDOW_BYTES.into())
            .receive_window(self.receive_window_bytes.into())
            .send_window(self.send_window().bytes())
            .max_idle_timeout(Some(VarInt::from_u32(IDLE_TIMEOUT.as_millis() as u32).into()))
            .keep_alive_interval(Some(KEEP_ALIVE))
            .initial_rtt(INITIAL_RTT)
            .datagram_receive_buffer_size(None)
            // Turns of streams longer than a packet: one of them is read at a time, with fewer switches of threads.
            .send_fairness(false)
            .mtu_discovery_config(Some(self.mtu_discovery(peer)))
            .congestion_controller_factory(Arc::new(SchedulerFactory::new(board.clone(), self.control)));
        if self.multipath {
            config.max_concurrent_multipath_paths(PATHS);
        }
        #[cfg(feature = "qlog")]
        if let Some(directory) = &self.quic.qlog {
            config.qlog_factory(Arc::new(QlogDirectory::new(directory.clone(), epoch)));
        }
        config
    }

    pub(crate) fn send_window(&self) -> SendWindow {
        SendWindow::new(self.send_buffer_bytes)
    }

    /// All paths of a connection have one upper bound with the library, so it is that of the largest interface. What
    /// another interface does not take is lost at once there, like a probe on the way.
    fn mtu_discovery(&self, peer: IpAddr) -> MtuDiscoveryConfig {
        let payload = self.mtu_bytes.min(LARGEST_MTU_BYTES).saturating_sub(headers_bytes(peer));
        let mut discovery = MtuDiscoveryConfig::default();
        discovery
            .upper_bound(u16::try_from(payload).unwrap_or(LARGEST_PAYLOAD_BYTES))
            .minimum_change(MTU_RESOLUTION_BYTES)
            .interval(MTU_SEARCH_INTERVAL)
            .black_hole_cooldown(MTU_BLACK_HOLE_COOLDOWN);
        discovery
    }
}

/// IP and UDP header in front of a datagram to `peer`, which may be an IPv4 address written as one of IPv6.
pub(crate) fn headers_bytes(peer: IpAddr) -> u32 {
    if peer.to_canonical().is_ipv4() { V4_HEADERS_BYTES } else { V6_HEADERS_BYTES }
}

/// The library's configuration of an endpoint.
pub fn endpoint_config() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    // Never refused: the bound is a constant within the limits.
    let _ = config.max_udp_payload_size(LARGEST_PAYLOAD_BYTES);
    config
        .cid_generator(Arc::new(|| Box::new(RandomConnectionIdGenerator::new(CONNECTION_ID_BYTES))))
        .min_reset_interval(RESET_INTERVAL);
    config
}
