//! The library's configuration of endpoints and connections.

use super::options::QuicOptions;
#[cfg(feature = "qlog")]
use super::qlog::QlogDirectory;
use super::time::Epoch;
use crate::library::scheduler::{Board, CongestionControl, SchedulerFactory};
use crate::library::send_buffer::SendWindow;
use crate::library::stream_meter::StreamMeter;
use noq_proto::crypto;
use noq_proto::{EndpointConfig, MtuDiscoveryConfig, RandomConnectionIdGenerator, TransportConfig, VarInt};
use pathbench_record::connection::Scheduler;
use pathbench_record::network::AddressFamily;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Flow control window of a stream. With more than 2 MB, the library ends connections that lose many packets at once
/// ("too many gaps in stream buffer").
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
/// Length of connection IDs, which every packet carries. The library's 8 bytes cost 0.3 % of the payload of 1500 bytes.
const CONNECTION_ID_BYTES: usize = 4;
/// Least interval between two stateless resets (RFC 9000, section 10.3). They answer packets of unknown connections,
/// whose source addresses can be forged.
const RESET_INTERVAL: Duration = Duration::from_secs(1);
/// Flow control window of a connection.
pub const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Flow control window of a connection on which the server has not admitted a test yet: it holds a few requests.
pub const FIRST_WINDOW_BYTES: u32 = 128 << 10;
/// Streams that a peer may have open at once.
const STREAMS: u32 = 128;
/// Paths that a connection may have at once.
pub const PATHS: u32 = 8;
/// Received datagrams (RFC 9221) that the library holds until the end of a turn; it drops the oldest ones beyond that.
const DATAGRAM_BUFFER_BYTES: usize = 256 << 10;
/// Datagrams that wait for the congestion window: three frames of 20 kB. A further one is not sent.
const DATAGRAM_QUEUE_BYTES: usize = 64 << 10;
/// `max_idle_timeout` (RFC 9000 section 10.1).
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// A PING is sent this often on an idle connection, so that its idle timeout does not expire.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// `max_udp_payload_size` (RFC 9000 section 18.2).
const LARGEST_PAYLOAD_BYTES: u16 = 65_527;
/// The RTT assumed before the first sample. RFC 9002 section 6.2.2 recommends 333 ms. The first packet on a path is
/// often lost on an interface that has just come up; with 333 ms it would be retransmitted only after a second.
const INITIAL_RTT: Duration = Duration::from_millis(100);
/// The MTU of jumbo frames. Datagrams on loopback could be 64 KiB long, but longer ones gain nothing.
const LARGEST_MTU_BYTES: u32 = 9216;
/// Interval between two MTU searches, in which a larger path MTU is found. RFC 8899 section 5.1.1 has 600 s, for
/// connections that last hours; a measurement is shorter. The search is binary between the path's and the interface's
/// MTU. One that finds no larger MTU costs three probes a step: 0.1 Mbit/s for two seconds on a path of 1500 bytes
/// behind an interface of 9000 bytes, and nothing where both MTUs are the same.
const MTU_SEARCH_INTERVAL: Duration = Duration::from_secs(10);
/// After a black hole the path MTU is searched again from 1200 bytes (RFC 8899 section 4.3), this much later:
/// congestion can cause the same losses, and then a new search is not urgent.
const MTU_BLACK_HOLE_COOLDOWN: Duration = Duration::from_secs(1);
/// The search finds the path MTU to the byte (the library's default stops within 20 bytes).
const MTU_RESOLUTION_BYTES: u16 = 1;

/// The scheduler's board and the stream meter of one connection, both called by the library.
#[derive(Debug)]
pub struct Instruments {
    pub(crate) board: Board,
    pub(crate) meter: StreamMeter,
}

impl Instruments {
    pub fn new(scheduler: &Scheduler) -> Self {
        Self { board: Board::new(scheduler.clone()), meter: StreamMeter::default() }
    }

    /// The client's cryptography, wrapped so that stream data is counted.
    pub fn at_client(&self, crypto: Arc<dyn crypto::ClientConfig>) -> Arc<dyn crypto::ClientConfig> {
        self.meter.at_client(crypto)
    }

    /// The server's cryptography, wrapped so that stream data is counted.
    pub fn at_server(&self, crypto: Arc<dyn crypto::ServerConfig>) -> Arc<dyn crypto::ServerConfig> {
        self.meter.at_server(crypto)
    }
}

#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    pub quic: QuicOptions,
    pub control: CongestionControl,
    /// Negotiate multipath.
    pub multipath: bool,
    /// The largest MTU of the interfaces that the connection may use.
    pub mtu_bytes: u32,
    /// Send buffer: bytes written and not acknowledged yet. `None`: it follows the congestion windows.
    pub send_buffer_bytes: Option<u64>,
    /// Initial flow control window of the connection: [`CONNECTION_WINDOW_BYTES`] or [`FIRST_WINDOW_BYTES`].
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
            .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER_BYTES))
            .datagram_send_buffer_size(DATAGRAM_QUEUE_BYTES)
            // Several packets of one stream in a row: its reader runs longer at a time, with fewer context switches.
            .send_fairness(false)
            .mtu_discovery_config(Some(self.mtu_discovery(peer)))
            .congestion_controller_factory(Arc::new(SchedulerFactory::new(
                board.clone(),
                instruments.meter.clone(),
                self.control,
            )));
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

    /// The library has one upper bound for all paths of a connection: the MTU of the largest interface. A probe that
    /// exceeds another interface's MTU counts as lost, like a probe that the path drops.
    fn mtu_discovery(&self, peer: IpAddr) -> MtuDiscoveryConfig {
        let payload =
            AddressFamily::from_address(peer).udp_payload_bytes(self.mtu_bytes.min(LARGEST_MTU_BYTES));
        let mut discovery = MtuDiscoveryConfig::default();
        discovery
            .upper_bound(u16::try_from(payload).unwrap_or(LARGEST_PAYLOAD_BYTES))
            .minimum_change(MTU_RESOLUTION_BYTES)
            .interval(MTU_SEARCH_INTERVAL)
            .black_hole_cooldown(MTU_BLACK_HOLE_COOLDOWN);
        discovery
    }
}

/// The library's configuration of an endpoint.
pub fn endpoint_config() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    // Does not fail: the constant is within the limits.
    let _ = config.max_udp_payload_size(LARGEST_PAYLOAD_BYTES);
    config
        .cid_generator(Arc::new(|| Box::new(RandomConnectionIdGenerator::new(CONNECTION_ID_BYTES))))
        .min_reset_interval(RESET_INTERVAL);
    config
}
