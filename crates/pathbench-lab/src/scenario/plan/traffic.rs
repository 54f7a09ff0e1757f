//! A valid `[run]`: transports, patterns and their parameters.

use pathbench_record::connection::Scheduler;
use pathbench_record::datagram::DatagramsParameters;
use pathbench_record::direction::DataDirection;
use pathbench_record::network::AddressFamily;
use pathbench_record::pattern::{
    Amount, BulkParameters, InteractiveParameters, PatternParameters, PingParameters, ThroughputParameters,
};
use pathbench_record::response::ResponsivenessParameters;
use pathbench_record::transport::TransportLabel;
use pathbench_record::units::milliseconds;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// Each transport, with the path to which it is bound, if any; `tcp@*` is already expanded.
    pub labels: Vec<TransportLabel>,
    /// Each transport runs each pattern. At least one pattern; names are unique.
    pub patterns: Vec<PatternPlan>,
    /// The host that opens connections.
    pub client: String,
    /// The host that accepts them.
    pub server: String,
    /// IP version of the connections.
    pub family: AddressFamily,
    /// Whether the sizes of all packets on all links are counted.
    pub packet_sizes: bool,
    /// Whether tcp and mptcp are encrypted, too.
    pub tls: bool,
    /// Options of the kernel's sockets under every pattern.
    pub socket: SocketPlan,
    pub quic: QuicPlan,
}

impl RunPlan {
    /// Sending time of the longest pattern, warm-up included; `None` if a pattern ends by count or by bytes.
    pub fn duration(&self) -> Option<Duration> {
        let durations: Option<Vec<Duration>> = self.patterns.iter().map(PatternPlan::duration).collect();
        durations?.into_iter().max()
    }
}

/// Options of the kernel's sockets and of the application, the same for all patterns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SocketPlan {
    /// Congestion control of both ends of tcp and mptcp; `None`: the kernel's choice.
    pub congestion: Option<String>,
    /// The application gives up after this time without progress of its connection while data is outstanding.
    pub patience: Duration,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PatternPlan {
    /// Small requests, one after the other.
    Ping(PingParameters),
    /// A download of a given size, verified.
    Bulk(BulkParameters),
    /// The maximum amount of data that the connection carries.
    Throughput(ThroughputPlan),
    /// Small requests and responses at a fixed interval.
    Interactive(InteractiveParameters),
    /// Probes while the connection is idle and under load.
    Responsiveness(ResponsivenessParameters),
    /// Packets at a constant rate, without retransmission.
    Datagrams(DatagramsParameters),
}

impl PatternPlan {
    /// As in the scenario file and in results. The names of the suite's two throughput patterns have their direction.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ping(_) => "ping",
            Self::Bulk(_) => "bulk",
            Self::Throughput(throughput) => match (throughput.named_by_direction, throughput.direction) {
                (true, DataDirection::Upload) => "throughput-upload",
                (true, DataDirection::Download) => "throughput-download",
                _ => "throughput",
            },
            Self::Interactive(_) => "interactive",
            Self::Responsiveness(_) => "responsiveness",
            Self::Datagrams(_) => "datagrams",
        }
    }

    pub fn parameters(&self) -> PatternParameters {
        match self {
            Self::Ping(ping) => PatternParameters::Ping(ping.clone()),
            Self::Bulk(bulk) => PatternParameters::Bulk(bulk.clone()),
            Self::Throughput(throughput) => PatternParameters::Throughput(throughput.into()),
            Self::Interactive(interactive) => PatternParameters::Interactive(interactive.clone()),
            Self::Responsiveness(response) => PatternParameters::Responsiveness(response.clone()),
            Self::Datagrams(datagrams) => PatternParameters::Datagrams(datagrams.clone()),
        }
    }

    /// Sending time, warm-up included; `None` for a pattern that ends by count or by bytes.
    pub fn duration(&self) -> Option<Duration> {
        match self {
            Self::Ping(_) | Self::Bulk(_) => None,
            Self::Throughput(throughput) => throughput.duration,
            Self::Interactive(interactive) => Some(interactive.duration),
            Self::Responsiveness(response) => Some(response.duration()),
            Self::Datagrams(datagrams) => Some(datagrams.duration),
        }
    }
}

/// Parameters of the throughput pattern. An absent value means the kernel's choice, or no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputPlan {
    pub direction: DataDirection,
    /// Whether the pattern is one of the suite's two, whose names contain their direction.
    pub named_by_direction: bool,
    /// Sending time, warm-up included; `None` if the run ends by bytes.
    #[serde(
        rename = "duration_ms",
        default,
        with = "optional_milliseconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration: Option<Duration>,
    pub streams: u32,
    /// Bytes per stream and direction after which the run ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Rate limit of the sending application, per stream and direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Warm-up that goodput excludes.
    #[serde(rename = "omit_ms", with = "milliseconds")]
    pub omit: Duration,
    /// Congestion control of both ends of tcp and mptcp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// `SO_SNDBUF` of the sending end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer_bytes: Option<u64>,
    /// `SO_RCVBUF` of the receiving end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer_bytes: Option<u64>,
    /// Bytes per write; `None`: the pattern's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u32>,
    /// The sender's data are not copied (`sendfile`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub zero_copy: bool,
    /// The receiver discards data in the kernel (`MSG_TRUNC`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_receive_copy: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_processor: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_processor: Option<u32>,
    /// The application gives up after this time without progress of its connection while data is outstanding.
    #[serde(rename = "patience_ms", with = "milliseconds")]
    pub patience: Duration,
}

impl From<&ThroughputPlan> for ThroughputParameters {
    /// In a plan, bytes and rate are per stream, and the duration includes the warm-up. In the parameters, bytes and
    /// rate are totals of all streams, and the warm-up precedes the duration.
    fn from(plan: &ThroughputPlan) -> Self {
        let streams = u64::from(plan.streams);
        let amount = match (plan.bytes, plan.duration) {
            (Some(bytes), _) => Amount::Bytes(bytes.saturating_mul(streams)),
            (None, duration) => Amount::Duration(duration.unwrap_or_default().saturating_sub(plan.omit)),
        };
        Self {
            direction: plan.direction,
            streams: plan.streams,
            amount,
            rate_bps: plan.rate_bps.map(|rate_bps| rate_bps.saturating_mul(streams)),
            omit: plan.omit,
            block_bytes: plan.block_bytes.unwrap_or(Self::DEFAULT_BLOCK_BYTES),
            zero_copy: plan.zero_copy,
            skip_receive_copy: plan.skip_receive_copy,
            client_processor: plan.client_processor,
            server_processor: plan.server_processor,
        }
    }
}

/// Options of quic and mpquic, the same for all patterns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuicPlan {
    /// The scheduler, which selects the path of new data, at both ends.
    pub scheduler: Scheduler,
    /// Interval of PING frames on every path, from both ends.
    pub heartbeat: Duration,
    /// After this time without received packets, a path carries no new data while another path receives packets.
    pub silence: Duration,
    /// Congestion control of both ends; `None`: the transport's choice.
    pub congestion: Option<String>,
    /// Whether each run writes a qlog of its connection to the result directory.
    pub qlog: bool,
}

/// An absent duration has no field.
mod optional_milliseconds {
    use pathbench_record::units::milliseconds;
    use serde::{Deserializer, Serializer};
    use std::time::Duration;

    #[allow(clippy::ref_option, reason = "serde calls it with a reference to the field")]
    pub(super) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        milliseconds::serialize(&value.unwrap_or_default(), serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        milliseconds::deserialize(deserializer).map(Some)
    }
}
