//! One line of `samples.jsonl`: the transport's state of a path at one time.

use crate::directory::{Fields, text_fields};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::net::SocketAddr;

/// The end of the connection that took a sample or made a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The end that opened the connection.
    Client,
    Server,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// Being opened (TCP: SYN sent or received; QUIC: not validated yet).
    #[default]
    Opening,
    /// Open; the transport may use it. Includes a QUIC path suspended for its silence, which is an event.
    Open,
    /// Closed (QUIC: abandoned by either end), with its last figures.
    Closed,
}

text_fields!(Side, PathState);

/// Declares [`PathFigures`], and beside it [`FlatSample`] with the same fields.
macro_rules! path_figures {
    ($(#[$of_type:meta])* pub struct PathFigures { $($(#[$of_field:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$of_type])*
        pub struct PathFigures {
            $($(#[$of_field])* pub $field: $type,)*
        }

        /// The fields of [`Sample`] as they are in a line. serde's `flatten` would first keep each field in memory.
        #[derive(Deserialize)]
        struct FlatSample {
            run: String,
            t_ms: f64,
            host: String,
            side: Side,
            stream: u32,
            path: String,
            $($field: $type,)*
        }

        impl<'de> Deserialize<'de> for Sample {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let FlatSample { run, t_ms, host, side, stream, path, $($field,)* } =
                    FlatSample::deserialize(deserializer)?;
                Ok(Self { run, t_ms, host, side, stream, path, figures: PathFigures { $($field,)* } })
            }
        }

        impl Sample {
            /// The sample of a line as Pathbench writes it.
            pub(crate) fn written(line: &[u8]) -> Option<Self> {
                let mut fields = Fields::new(line);
                let sample = Self {
                    run: fields.next("run")?,
                    t_ms: fields.next("t_ms")?,
                    host: fields.next("host")?,
                    side: fields.next("side")?,
                    stream: fields.next("stream")?,
                    path: fields.next("path")?,
                    figures: PathFigures { $($field: fields.next(stringify!($field))?,)* },
                };
                fields.is_end().then_some(sample)
            }
        }
    };
}

path_figures! {
    /// The transport's figures of one path. Counters run from the start of the connection.
    ///
    /// Sources: for tcp and mptcp, `struct tcp_info` (linux/tcp.h) of the subflow, and payload is TCP payload; a
    /// field that the kernel of the host did not report is absent. For quic and mpquic, the state of the QUIC path in
    /// the process (RFC 9000, RFC 9002, draft-ietf-quic-multipath), and payload is the data of STREAM frames. Counters of
    /// whole packets (acknowledged, lost, in flight) include headers and packets without stream data.
    #[serde_with::skip_serializing_none]
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct PathFigures {
        /// The kernel's subflow ID if reported, else the order of appearance. From 1.
        pub subflow: u32,
        /// QUIC path ID (draft-ietf-quic-multipath, section 3.1; 0 is the handshake's). Absent for tcp and mptcp.
        pub path_id: Option<u64>,
        /// This side's address and port.
        pub local: SocketAddr,
        /// The other side's address and port.
        pub remote: SocketAddr,
        /// At the client of tcp and mptcp: the interface by which its packets leave, as the kernel routes them when
        /// the subflow is established ([definition](metrics.md#path)). Absent where unknown, and for quic and mpquic,
        /// whose sockets are bound to their interface.
        pub interface: Option<String>,
        /// `opening` (QUIC: not validated yet), `open`, or `closed` with its last figures (QUIC: abandoned). A QUIC
        /// path suspended because of silence is `open`; `events.jsonl` has the suspension.
        pub state: PathState,
        /// Whether the path is marked as backup, if the transport reports it (QUIC: the current status at this end).
        pub backup: Option<bool>,
        /// Payload bytes sent, retransmissions included (`tcpi_bytes_sent`; QUIC: data of STREAM frames).
        pub bytes_sent: u64,
        /// Packets sent, acknowledgements included (`tcpi_segs_out`; QUIC: datagrams). Absent where unknown.
        pub packets_sent: Option<u64>,
        /// Packets received, acknowledgements included (`tcpi_segs_in`; QUIC: datagrams). Absent where unknown.
        pub packets_received: Option<u64>,
        /// UDP payload sent in packets without stream data: handshake, acknowledgements, heartbeats, MTU probes, path
        /// validation. Absent for tcp and mptcp.
        pub control_bytes_sent: Option<u64>,
        /// As `control_bytes_sent`, received. Absent for tcp and mptcp.
        pub control_bytes_received: Option<u64>,
        /// Payload bytes acknowledged (`tcpi_bytes_acked`; QUIC: sizes of acknowledged packets, with and without stream
        /// data).
        pub bytes_acked: u64,
        /// Payload bytes received in order on this path (`tcpi_bytes_received`; QUIC: data of STREAM frames in
        /// any order, duplicates included).
        pub bytes_received: u64,
        /// Payload bytes of `bytes_sent` that had been sent before (`tcpi_bytes_retrans`: on this subflow; QUIC:
        /// stream data that had been sent before on any path).
        pub retransmitted_bytes: u64,
        /// Segments retransmitted (`tcpi_total_retrans`; QUIC: packets declared lost).
        pub retransmitted_segments: u64,
        /// Sizes of packets declared lost (QUIC, RFC 9002, section 6.1), MTU probes included. Absent for tcp and mptcp.
        pub lost_bytes: Option<u64>,
        /// Packets sent to probe for a larger path MTU (RFC 8899). Absent for tcp and mptcp.
        pub mtu_probes: Option<u64>,
        /// How often the path MTU was found too large and reset (RFC 8899, section 4.3). Absent for tcp and mptcp.
        pub black_holes: Option<u64>,
        /// Smoothed round-trip time; for QUIC without the peer's acknowledgement delay.
        pub srtt_ms: f64,
        /// Mean deviation of the round-trip time.
        pub rttvar_ms: f64,
        /// Smallest round-trip time; absent before the first measurement.
        pub min_rtt_ms: Option<f64>,
        /// Current retransmission timeout (QUIC: RFC 9002, section 6.2.1, with a variation term of at least 10 ms).
        pub rto_ms: f64,
        /// Exponential back-off steps of the retransmission timer (`tcpi_backoff`; QUIC: consecutive probe timeouts).
        pub backoff: u32,
        /// Congestion window.
        pub cwnd_bytes: u64,
        /// Bytes in flight: for tcp and mptcp estimated as unacknowledged − sacked − lost + retransmitted segments times
        /// MSS; for QUIC as counted by its congestion controller.
        pub in_flight_bytes: u64,
        /// Bytes in the socket not yet sent (`tcpi_notsent_bytes`); zero for QUIC, where data waits in the connection.
        pub not_sent_bytes: u64,
        /// Pacing rate.
        pub pacing_rate_bps: Option<u64>,
        /// Most recent delivery-rate estimate.
        pub delivery_rate_bps: Option<u64>,
        /// Current sending MSS (QUIC: largest UDP payload).
        pub mss_bytes: u32,
        /// Path MTU in the kernel (QUIC: largest UDP payload + UDP and IP header).
        pub pmtu_bytes: u32,
        /// Time since data was last sent on the path.
        pub since_last_sent_ms: u64,
        /// Time since data was last received on the path.
        pub since_last_received_ms: u64,
        /// Number of closed paths between the same two hosts whose counters are summed here. Absent for a single path.
        pub closed_paths: Option<u32>,
        /// Time in which data waited for its acknowledgement or to be sent (`tcpi_busy_time`), the two times below
        /// included. Absent for quic and mpquic.
        pub busy_us: Option<u64>,
        /// Of `busy_us`, the time in which the peer's receive window held data back (`tcpi_rwnd_limited`). A subflow of
        /// mptcp waits for the window of the connection without being busy. Of quic and mpquic, of the whole connection,
        /// the same for all its paths: the time in which all that the application had written was sent, it waited to write
        /// more, and a congestion window had room.
        pub receive_window_limited_us: Option<u64>,
        /// Of `busy_us`, the time in which the send buffer was full of sent data (`tcpi_sndbuf_limited`). Of quic and
        /// mpquic: as above, while a send buffer of a requested size was full.
        pub send_buffer_limited_us: Option<u64>,
        /// Whether the application's lack of data limited the latest delivery-rate estimate
        /// (`tcpi_delivery_rate_app_limited`).
        pub application_limited: Option<bool>,
        /// The peer's receive window (`tcpi_snd_wnd`, Linux 5.4); of an mptcp subflow, that of the connection.
        pub send_window_bytes: Option<u32>,
        /// The window for which this end's receive buffer is tuned (`tcpi_rcv_space`).
        pub receive_space_bytes: Option<u32>,
        /// Packets received out of order (`tcpi_rcv_ooopack`, Linux 5.4).
        pub out_of_order_packets: Option<u32>,
        /// Of the whole mptcp connection, the same for all its subflows: bytes that the application wrote and the peer
        /// has not acknowledged at the MPTCP level (`mptcpi_write_seq` − `mptcpi_snd_una`).
        pub connection_unacked_bytes: Option<u64>,
        /// Of the whole mptcp connection: payload received in order at the MPTCP level (`mptcpi_bytes_received`, 6.5).
        pub connection_received_bytes: Option<u64>,
    }
}

impl PathFigures {
    /// A path with unknown figures: opening, all counters at zero.
    pub const fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            subflow: 0,
            path_id: None,
            local,
            remote,
            interface: None,
            state: PathState::Opening,
            backup: None,
            bytes_sent: 0,
            packets_sent: None,
            packets_received: None,
            control_bytes_sent: None,
            control_bytes_received: None,
            bytes_acked: 0,
            bytes_received: 0,
            retransmitted_bytes: 0,
            retransmitted_segments: 0,
            lost_bytes: None,
            mtu_probes: None,
            black_holes: None,
            srtt_ms: 0.0,
            rttvar_ms: 0.0,
            min_rtt_ms: None,
            rto_ms: 0.0,
            backoff: 0,
            cwnd_bytes: 0,
            in_flight_bytes: 0,
            not_sent_bytes: 0,
            pacing_rate_bps: None,
            delivery_rate_bps: None,
            mss_bytes: 0,
            pmtu_bytes: 0,
            since_last_sent_ms: 0,
            since_last_received_ms: 0,
            closed_paths: None,
            busy_us: None,
            receive_window_limited_us: None,
            send_buffer_limited_us: None,
            application_limited: None,
            send_window_bytes: None,
            receive_space_bytes: None,
            out_of_order_packets: None,
            connection_unacked_bytes: None,
            connection_received_bytes: None,
        }
    }

    /// Payload sent on this path for the first time.
    pub const fn new_bytes_sent(&self) -> u64 {
        self.bytes_sent.saturating_sub(self.retransmitted_bytes)
    }

    /// Acknowledged payload: the acknowledged packets of a QUIC path need not have carried any.
    pub fn payload_acked(&self) -> u64 {
        self.bytes_acked.min(self.new_bytes_sent())
    }

    /// Adds the counters of `later`, a closed path, to those of earlier closed paths. All other figures are from
    /// `later`.
    pub fn add_closed(&mut self, later: &Self) {
        let mut sum = Self {
            subflow: self.subflow,
            path_id: None,
            local: self.local,
            remote: self.remote,
            state: PathState::Closed,
            in_flight_bytes: 0,
            not_sent_bytes: 0,
            min_rtt_ms: either(self.min_rtt_ms, later.min_rtt_ms, f64::min),
            out_of_order_packets: either(
                self.out_of_order_packets,
                later.out_of_order_packets,
                u32::saturating_add,
            ),
            closed_paths: Some(
                self.closed_paths.unwrap_or(1).saturating_add(later.closed_paths.unwrap_or(1)),
            ),
            ..later.clone()
        };
        let (counters, more) = sum.counters();
        let (earlier, more_earlier) = self.counters();
        for (total, earlier) in counters.into_iter().zip(earlier) {
            *total = total.saturating_add(*earlier);
        }
        for (total, earlier) in more.into_iter().zip(more_earlier) {
            *total = either(*total, *earlier, u64::saturating_add);
        }
        *self = sum;
    }

    /// The counters of a path: those of all transports, and those of some.
    const fn counters(&mut self) -> ([&mut u64; 5], [&mut Option<u64>; 10]) {
        let always = [
            &mut self.bytes_sent,
            &mut self.bytes_acked,
            &mut self.bytes_received,
            &mut self.retransmitted_bytes,
            &mut self.retransmitted_segments,
        ];
        let some = [
            &mut self.packets_sent,
            &mut self.packets_received,
            &mut self.control_bytes_sent,
            &mut self.control_bytes_received,
            &mut self.lost_bytes,
            &mut self.mtu_probes,
            &mut self.black_holes,
            &mut self.busy_us,
            &mut self.receive_window_limited_us,
            &mut self.send_buffer_limited_us,
        ];
        (always, some)
    }
}

/// Both combined, or the one that is known.
fn either<T>(a: Option<T>, b: Option<T>, combine: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(combine(a, b)),
        (a, b) => a.or(b),
    }
}

/// One line of `samples.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Sample {
    /// The run's `id`.
    pub run: String,
    /// Time of the sample.
    pub t_ms: f64,
    /// Host of the sample.
    pub host: String,
    /// `client` or `server`.
    pub side: Side,
    /// Connection within the run, from 0.
    pub stream: u32,
    /// The path.
    pub path: String,
    #[serde(flatten)]
    pub figures: PathFigures,
}
