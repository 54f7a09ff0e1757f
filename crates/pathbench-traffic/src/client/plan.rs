//! The request to run a test.

use crate::datagram::UdpPath;
use pathbench_record::connection::Scheduler;
use pathbench_record::end::TestId;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::transport::Transport;
use pathbench_transport::{LocalPath, QuicOptions, Security, SocketOptions};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientPlan {
    pub transport: Transport,
    pub server: SocketAddr,
    /// The local address to connect from; the kernel's choice when absent.
    pub local: Option<IpAddr>,
    /// The outgoing interface (`SO_BINDTODEVICE`).
    pub interface: Option<String>,
    pub socket: SocketOptions,
    /// 16 bytes from a cryptographic random source.
    pub test: TestId,
    pub parameters: PatternParameters,
    /// Whether tcp and mptcp are encrypted, and how the server is authenticated; quic and mpquic always encrypt.
    pub security: Security,
    /// Options of quic and mpquic beyond [`ClientPlan::socket`].
    pub quic: QuicOptions,
    /// Token from the server's operator, if the server requires one.
    pub token: Option<String>,
    /// Sampling interval of the kernel's figures per path, at least 1 ms.
    pub sample_interval: Duration,
    /// The server's sampling interval, to make its record smaller than with its own interval.
    #[serde(default)]
    pub server_sample_interval: Option<Duration>,
    /// The test ends as not completed after this long without progress. A sender's progress is a byte that its
    /// socket accepted or that the peer's kernel acknowledged; a receiver's is a byte received.
    pub patience: Duration,
    /// Limit of the wait for each connection, and for the server's answer on it.
    pub connect_timeout: Duration,
    /// The UDP probes of a `responsiveness` test; `None`: no UDP address of the server is known.
    #[serde(default)]
    pub path_probes: Option<PathProbes>,
}

/// The server's address for UDP probes, and the paths to probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathProbes {
    pub server: SocketAddr,
    pub paths: Vec<PathToProbe>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathToProbe {
    pub name: String,
    /// The outgoing interface and the source address; the kernel's choice when absent.
    pub interface: Option<String>,
    pub local: Option<IpAddr>,
}

impl ClientPlan {
    /// The paths of udp: those of the plan, or the one of its interface and address.
    pub(super) fn udp_paths(&self) -> Vec<UdpPath> {
        if self.quic.paths.is_empty() {
            return vec![UdpPath { interface: self.interface.clone(), local: self.local }];
        }
        let path =
            |path: &LocalPath| UdpPath { interface: Some(path.interface.clone()), local: path.address };
        self.quic.paths.iter().map(path).collect()
    }

    /// The parameters, adapted to transport and paths: each path of udp, and of the scheduler `redundant`, carries each
    /// datagram.
    pub(super) fn parameters_in_use(&self) -> PatternParameters {
        let mut parameters = self.parameters.clone().for_transport(self.transport);
        if let PatternParameters::Datagrams(datagrams) = &mut parameters {
            let is_copied =
                self.transport == Transport::Mpquic && self.quic.scheduler == Scheduler::Redundant;
            let paths = if self.transport == Transport::Udp || is_copied { self.quic.paths.len() } else { 1 };
            datagrams.paths = u32::try_from(paths.max(1)).unwrap_or(u32::MAX);
        }
        parameters
    }

    /// A test from the kernel's choice of address, without encryption where the transport permits that, with a sample
    /// every 100 ms, a patience of 30 s and 5 s to connect.
    pub fn new(
        transport: Transport,
        server: SocketAddr,
        test: TestId,
        parameters: PatternParameters,
    ) -> Self {
        Self {
            transport,
            server,
            local: None,
            interface: None,
            socket: SocketOptions::default(),
            test,
            parameters,
            security: Security::Clear,
            quic: QuicOptions::default(),
            token: None,
            sample_interval: Duration::from_millis(100),
            server_sample_interval: None,
            patience: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            path_probes: None,
        }
    }
}
