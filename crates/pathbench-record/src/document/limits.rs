//! The limits of a run's rate, and the CPU time that it took.

use crate::direction::Direction;
use crate::sample::Side;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A limit of the rate of one direction of a run, as measured ([definition](metrics.md#limits)).
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitRecord {
    /// Direction of the data.
    pub direction: Direction,
    /// The limit.
    pub kind: LimitKind,
    /// The end that has the limit; absent for a limit of the network.
    pub side: Option<Side>,
    /// The path; absent for a limit of the connection.
    pub path: Option<String>,
    /// Fraction of the measured time in which it limited the rate, 0 to 1.
    pub share: f64,
    /// Whether it explains the rate: the first entry of a run does, unless the links limited it.
    pub named: bool,
    /// Its signs with their figures, in words.
    pub because: String,
    /// A command that removes it; absent if there is none, or if its values are unknown.
    pub remedy: Option<String>,
}

/// A limit that the records of a run do not decide ([definition](metrics.md#limits)).
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnexaminedLimit {
    /// Direction of the data.
    pub direction: Direction,
    /// The limit.
    pub kind: LimitKind,
    /// The end that would have it; absent for a limit of the network.
    pub side: Option<Side>,
    /// The missing figure, in words.
    pub because: String,
}

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    /// The peer's receive window was full.
    ReceiveWindow,
    /// The send buffer was full of data that the peer had not acknowledged.
    SendBuffer,
    /// The congestion window was full: the links carried no more, as in every healthy transfer.
    CongestionWindow,
    /// The application sent no more: its rate, or a server's rate limit.
    Application,
    /// A thread of the sender used a CPU all the time.
    SenderCpu,
    /// A thread of the receiver used a CPU all the time.
    ReceiverCpu,
    /// Data of one path waited at the receiver for data of another path.
    HeadOfLine,
    /// A queueing discipline of the sending host shaped the path's interface.
    Qdisc,
    /// All paths cross a link that one path alone fills.
    SharedBottleneck,
}

impl LimitKind {
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it is CPU time of either end.
    pub const fn is_cpu(self) -> bool {
        matches!(self, Self::SenderCpu | Self::ReceiverCpu)
    }

    /// The words for the limit in sentences, and the values of `limited_by`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::ReceiveWindow => "receive window",
            Self::SendBuffer => "send buffer",
            Self::CongestionWindow => "congestion window",
            Self::Application => "application",
            Self::SenderCpu => "sender's CPU",
            Self::ReceiverCpu => "receiver's CPU",
            Self::HeadOfLine => "head-of-line blocking",
            Self::Qdisc => "qdisc",
            Self::SharedBottleneck => "shared bottleneck",
        }
    }
}

/// CPU time of the threads of a test at one end ([definition](metrics.md#cpu)).
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
pub struct CpuRecord {
    /// Time of all threads on a CPU.
    pub seconds: f64,
    /// `seconds` per 10⁹ bytes of payload, sent and received together; absent without payload.
    pub seconds_per_gb: Option<f64>,
    /// The busiest thread: fraction of its time on a CPU, 0 to 1.
    pub busiest_ran: f64,
    /// The busiest thread: fraction of its time in which it was ready and other threads had the CPUs, 0 to 1.
    pub busiest_waited: f64,
    /// Percentage of the machine's CPU time that the hypervisor gave to other machines (`steal` of `/proc/stat`).
    pub stolen_percent: Option<u32>,
}
