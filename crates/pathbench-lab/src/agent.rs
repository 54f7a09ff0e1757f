//! The agent of a lab host, a process that executes the orchestrator's requests inside the host's namespaces, and the
//! orchestrator's handle on the agent.
//!
//! The agent reads requests from its end of a socket pair (its standard input) and answers with notices. It exits
//! immediately when the orchestrator's end of the pair is closed.

use crate::channel::{self, ChannelError};
use pathbench_host::namespace::{NamespaceError, NetNamespace};
use pathbench_record::end::EndRecord;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_traffic::calibration::{CalibrationCommand, CalibrationEnd, EndReport};
use pathbench_traffic::client::{
    ClientObserver, ClientOutcome, ClientPlan, Progress, fetch_record, run_client,
};
use pathbench_traffic::server::{Server, ServerLimits, ServerOptions};
use pathbench_transport::lock;
use pathbench_transport::{
    CertificateFingerprint, QuicOptions, Security, ServerIdentity, SocketOptions, Trust, mptcp_available,
};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel as queue};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thiserror::Error;

/// Time limit for the start of an agent, and for the answer to a request that needs no traffic.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
pub enum AgentRequest {
    Serve(ServePlan),
    /// Sends, receives or reports measured packets of a link; the answer is [`AgentNotice::Calibrated`].
    Calibrate(CalibrationCommand),
    /// Runs a test as the client; the answer is a series of notices that ends with [`AgentNotice::Finished`].
    Transfer(Box<ClientPlan>),
    /// Requests the server's record of the test with this client record; the answer is [`AgentNotice::Record`].
    Record(Box<EndRecord>),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServePlan {
    pub transport: Transport,
    /// The address to listen on; with port 0 the kernel chooses the port.
    pub address: SocketAddr,
    pub socket: SocketOptions,
    pub quic: QuicOptions,
    pub encrypted: bool,
    /// Whether the server answers UDP probes: over tcp and mptcp it also listens for QUIC then.
    pub answers_probes: bool,
    /// Interval of the kernel's samples of each path.
    pub sample_interval: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum AgentNotice {
    Ready,
    Serving {
        addresses: Vec<SocketAddr>,
        fingerprint: Option<CertificateFingerprint>,
    },
    Calibrated(EndReport),
    /// The time at which the client sent or received its first byte of data.
    FirstByte(Timestamp),
    Progress(Progress),
    Finished(Box<ClientOutcome>),
    Record(Box<Result<EndRecord, String>>),
    Failed(String),
}

impl AgentNotice {
    pub(crate) fn into_answer<R>(self, expect: impl FnOnce(Self) -> Option<R>) -> Result<R, AgentError> {
        match self {
            Self::Failed(message) => Err(AgentError::Refused(message)),
            notice => expect(notice).ok_or(AgentError::OutOfTurn),
        }
    }
}

#[derive(Debug, Error)]
pub enum AgentError {
    #[error("its agent could not be started: {0}")]
    Start(io::Error),
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    #[error("its agent has ended (killed, or out of memory)")]
    Ended,
    #[error("its agent did not answer within {0:?}")]
    Silent(Duration),
    #[error("{0}")]
    Refused(String),
    #[error("its agent answered out of turn")]
    OutOfTurn,
}

/// The command that starts an agent.
#[derive(Debug, Clone)]
pub struct AgentLauncher {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

impl AgentLauncher {
    pub fn launch(&self, name: &str, namespace: &NetNamespace) -> Result<AgentHandle, AgentError> {
        let (ours, theirs) = UnixStream::pair().map_err(AgentError::Start)?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .arg(name)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null());
        let child = namespace.run_in(|| command.spawn())?.map_err(AgentError::Start)?;
        let reader = ours.try_clone().map_err(AgentError::Start)?;
        let (sender, notices) = queue();
        let gone = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&gone);
        let forward = move || {
            forward_notices(&reader, &sender);
            flag.store(true, Ordering::Relaxed);
        };
        std::thread::Builder::new()
            .name(format!("notices of {name}"))
            .spawn(forward)
            .map_err(AgentError::Start)?;
        Ok(AgentHandle { child, channel: ours, notices: Mutex::new(notices), gone })
    }
}

fn forward_notices(reader: &UnixStream, sender: &Sender<AgentNotice>) {
    while let Ok(notice) = channel::receive(reader) {
        if sender.send(notice).is_err() {
            return;
        }
    }
}

/// The orchestrator's handle on an agent. Dropping it ends the agent.
#[derive(Debug)]
pub struct AgentHandle {
    child: Child,
    channel: UnixStream,
    notices: Mutex<Receiver<AgentNotice>>,
    gone: Arc<AtomicBool>,
}

impl AgentHandle {
    pub fn send(&self, request: &AgentRequest) -> Result<(), AgentError> {
        channel::send(&self.channel, request).map_err(|_| AgentError::Ended)
    }

    pub fn next(&self, timeout: Duration) -> Result<Option<AgentNotice>, AgentError> {
        let notices = lock(&self.notices);
        match notices.recv_timeout(timeout) {
            Ok(notice) => Ok(Some(notice)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(AgentError::Ended),
        }
    }

    pub fn has_ended(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Waits until the agent has sent [`AgentNotice::Ready`].
    pub fn wait_until_ready(&self) -> Result<(), AgentError> {
        match self.next(ANSWER_TIMEOUT)? {
            Some(AgentNotice::Ready) => Ok(()),
            Some(_) => Err(AgentError::OutOfTurn),
            None => Err(AgentError::Silent(ANSWER_TIMEOUT)),
        }
    }

    pub(crate) fn end(&mut self) {
        let _already_dead = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Drop for AgentHandle {
    fn drop(&mut self) {
        self.end();
    }
}

/// Serves requests from `channel` until it closes: the main function of an agent process.
pub fn serve(channel: &UnixStream, clock: &Arc<dyn Clock>) -> Result<(), ChannelError> {
    let notices = Arc::new(Notices { channel: Mutex::new(channel.try_clone()?) });
    notices.send(&AgentNotice::Ready);
    let mut held = Held::default();
    loop {
        let request = match channel::receive(channel) {
            Ok(request) => request,
            Err(ChannelError::Closed) => return Ok(()),
            Err(error) => return Err(error),
        };
        match request {
            AgentRequest::Serve(options) => {
                let answer = held.serve(options, clock);
                notices.send(&answer.unwrap_or_else(|error| AgentNotice::Failed(error.to_string())));
            }
            AgentRequest::Record(client) => notices.send(&held.record(&client, clock)),
            AgentRequest::Calibrate(command) => {
                let end = Arc::clone(&held.calibration);
                in_background(&notices, clock, move |_, clock| {
                    end.carry_out(command, clock)
                        .map_or_else(|error| AgentNotice::Failed(error.to_string()), AgentNotice::Calibrated)
                });
            }
            AgentRequest::Transfer(plan) => in_background(&notices, clock, move |notices, clock| {
                AgentNotice::Finished(Box::new(run_client(&plan, clock, notices)))
            }),
        }
    }
}

/// A host without MPTCP serves tcp, as `pathbench serve` does: the client then finds a server of plain TCP.
fn server_transport(transport: Transport) -> Transport {
    match transport {
        Transport::Mptcp if mptcp_available().is_err() => Transport::Tcp,
        other => other,
    }
}

#[derive(Default)]
struct Held {
    server: Option<(Server, Option<CertificateFingerprint>)>,
    /// Answers the UDP probes of a run over tcp or mptcp.
    probed: Option<Server>,
    calibration: Arc<CalibrationEnd>,
}

impl Held {
    fn serve(
        &mut self,
        plan: ServePlan,
        clock: &Arc<dyn Clock>,
    ) -> Result<AgentNotice, Box<dyn std::error::Error>> {
        let adds_quic = plan.answers_probes && !plan.transport.is_quic();
        let identity =
            (plan.encrypted || adds_quic).then(|| ServerIdentity::self_signed(&["pathbench".to_owned()]));
        let identity = identity.transpose()?.map(Arc::new);
        let fingerprint = identity.as_ref().map(|identity| identity.fingerprint());
        // UDP probes are answered at a port of QUIC, which has other congestion controls than TCP.
        let probed = if adds_quic {
            let listeners = vec![(Transport::Quic, plan.address)];
            let options = ServerOptions { identity: identity.clone(), ..ServerOptions::new(listeners) };
            Some(Server::start(options, Arc::clone(clock))?)
        } else {
            None
        };
        let options = ServerOptions {
            // No time limits: the scenario's client is the only client in the lab.
            limits: ServerLimits {
                max_duration: Duration::MAX,
                max_patience: Duration::MAX,
                ..ServerLimits::default()
            },
            socket: plan.socket,
            identity,
            quic: plan.quic,
            sample_interval: plan.sample_interval,
            ..ServerOptions::new(vec![(server_transport(plan.transport), plan.address)])
        };
        let server = Server::start(options, Arc::clone(clock))?;
        let servers = std::iter::once(&server).chain(&probed);
        let addresses = servers.flat_map(Server::addresses).map(|&(_, address)| address).collect();
        self.server = Some((server, fingerprint));
        self.probed = probed;
        Ok(AgentNotice::Serving { addresses, fingerprint })
    }

    /// Fetches the record over loopback with the test protocol, as any client can over any path.
    fn record(&self, client: &EndRecord, clock: &Arc<dyn Clock>) -> AgentNotice {
        let kept = self.server.as_ref().and_then(|(server, fingerprint)| {
            let &(transport, address) = server.addresses().first()?;
            let single = if transport.is_quic() { Transport::Quic } else { Transport::Tcp };
            let trust = fingerprint.filter(|_| transport.is_quic()).map(Trust::Fingerprint);
            let loopback: IpAddr =
                if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
            let server = SocketAddr::new(loopback, address.port());
            let plan = ClientPlan {
                security: trust.map_or(Security::Clear, Security::Tls),
                connect_timeout: ANSWER_TIMEOUT,
                ..ClientPlan::new(single, server, client.test, client.parameters.clone())
            };
            Some(fetch_record(&plan, true, client, clock).map_err(|error| error.to_string()))
        });
        AgentNotice::Record(Box::new(kept.unwrap_or_else(|| Err("there is no server".to_owned()))))
    }
}

/// Runs `work` on a separate thread and sends its result, so that the agent detects a closed channel in the meantime.
/// The orchestrator waits for an answer, so a panic is also sent as an answer.
fn in_background(
    notices: &Arc<Notices>,
    clock: &Arc<dyn Clock>,
    work: impl FnOnce(&Notices, &Arc<dyn Clock>) -> AgentNotice + Send + 'static,
) {
    let (notices, clock) = (Arc::clone(notices), Arc::clone(clock));
    std::thread::spawn(move || {
        let answer = catch_unwind(AssertUnwindSafe(|| work(&notices, &clock)));
        notices.send(&answer.unwrap_or_else(|_| AgentNotice::Failed("the host's agent panicked".to_owned())));
    });
}

struct Notices {
    channel: Mutex<UnixStream>,
}

impl Notices {
    /// Ignores an error: it means that the orchestrator has exited, which also ends the agent.
    fn send(&self, notice: &AgentNotice) {
        let channel = lock(&self.channel);
        let _orchestrator_ended = channel::send(&*channel, notice);
    }
}

impl ClientObserver for Notices {
    fn on_first_byte(&self, at: Timestamp) {
        self.send(&AgentNotice::FirstByte(at));
    }

    fn on_progress(&self, progress: &Progress) {
        self.send(&AgentNotice::Progress(progress.clone()));
    }
}
