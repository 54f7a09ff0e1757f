//! The agent of a lab host: the process that carries out what the orchestrator asks, inside the host's
//! namespaces; and the orchestrator's handle on it.
//!
//! The agent reads requests from its end of a socket pair (its standard input) and answers with notices.
//! When the pair ends, because the orchestrator is gone, the agent ends, whatever it is doing.

use crate::channel::{self, ChannelError};
use pathbench_host::namespace::{NamespaceError, NetNamespace};
use pathbench_record::end::EndRecord;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_traffic::calibration::{CalibrationEnd, Command as CalibrationCommand, EndReport};
use pathbench_traffic::client::{
    ClientObserver, ClientOutcome, ClientPlan, FetchPlan, Progress, fetch_record, run_client,
};
use pathbench_traffic::server::{Limits, Server, ServerOptions};
use pathbench_transport::{
    CertificateFingerprint, QuicOptions, Security, ServerIdentity, SocketOptions, Trust,
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
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;

/// How long an agent may take to start, or to answer a request that needs no traffic.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    Serve(ServePlan),
    /// Send, expect or report measured packets of a link; answered by [`Notice::Calibrated`].
    Calibrate(CalibrationCommand),
    /// Run a test as its client; answered by a series of notices that ends with [`Notice::Finished`].
    Transfer(Box<ClientPlan>),
    /// This agent's server's record of a test of which this is the client's; answered by [`Notice::Record`].
    Record(Box<EndRecord>),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServePlan {
    pub transport: Transport,
    /// Where to listen; port 0 for the kernel's choice.
    pub address: SocketAddr,
    pub socket: SocketOptions,
    pub quic: QuicOptions,
    pub encrypted: bool,
    /// Interval of the kernel's figures per path.
    pub sample_interval: Duration,
}

impl ServePlan {
    /// A server in clear text where the transport has that, with default options and a sample every 100 ms.
    pub fn new(transport: Transport, address: SocketAddr) -> Self {
        Self {
            transport,
            address,
            socket: SocketOptions::default(),
            quic: QuicOptions::default(),
            encrypted: is_quic(transport),
            sample_interval: Duration::from_millis(100),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Notice {
    Ready,
    Serving {
        addresses: Vec<SocketAddr>,
        fingerprint: Option<CertificateFingerprint>,
    },
    Calibrated(EndReport),
    /// The client's first byte of data went out or came in at this time.
    FirstByte(Timestamp),
    Progress(Progress),
    Finished(Box<ClientOutcome>),
    Record(Box<Result<EndRecord, String>>),
    Failed(String),
}

impl Notice {
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
    #[error("its agent is gone (killed, or out of memory)")]
    Gone,
    #[error("its agent did not answer within {0:?}")]
    Silent(Duration),
    #[error("{0}")]
    Refused(String),
    #[error("its agent answered out of turn")]
    OutOfTurn,
}

/// How agents are started: the program and the arguments that make it one.
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

fn forward_notices(reader: &UnixStream, sender: &Sender<Notice>) {
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
    notices: Mutex<Receiver<Notice>>,
    gone: Arc<AtomicBool>,
}

impl AgentHandle {
    pub fn send(&self, request: &Request) -> Result<(), AgentError> {
        channel::send(&self.channel, request).map_err(|_| AgentError::Gone)
    }

    pub fn next(&self, timeout: Duration) -> Result<Option<Notice>, AgentError> {
        let notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        match notices.recv_timeout(timeout) {
            Ok(notice) => Ok(Some(notice)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(AgentError::Gone),
        }
    }

    pub fn ask<R>(
        &self,
        request: &Request,
        timeout: Duration,
        expect: impl FnOnce(Notice) -> Option<R>,
    ) -> Result<R, AgentError> {
        self.send(request)?;
        let notice = self.next(timeout)?.ok_or(AgentError::Silent(timeout))?;
        notice.into_answer(expect)
    }

    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Waits until the agent has reported that it is up.
    pub fn wait_until_ready(&self) -> Result<(), AgentError> {
        match self.next(ANSWER_TIMEOUT)? {
            Some(Notice::Ready) => Ok(()),
            Some(_) => Err(AgentError::OutOfTurn),
            None => Err(AgentError::Silent(ANSWER_TIMEOUT)),
        }
    }

    pub(crate) fn end(&mut self) {
        let _already_dead = self.child.kill();
        let _reaped = self.child.wait();
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for AgentHandle {
    fn drop(&mut self) {
        self.end();
    }
}

/// Serves requests from `channel` until it closes. This is all that an agent process does.
pub fn serve(channel: &UnixStream, clock: &Arc<dyn Clock>) -> Result<(), ChannelError> {
    let notices = Arc::new(Notices { channel: Mutex::new(channel.try_clone()?) });
    notices.tell(&Notice::Ready);
    let mut held = Held::default();
    loop {
        let request = match channel::receive(channel) {
            Ok(request) => request,
            Err(ChannelError::Closed) => return Ok(()),
            Err(error) => return Err(error),
        };
        match request {
            Request::Serve(options) => notices.tell(&held.serve(options, clock)),
            Request::Record(client) => notices.tell(&held.record(&client, clock)),
            Request::Calibrate(command) => {
                let end = Arc::clone(&held.calibration);
                in_background(&notices, clock, move |_, clock| {
                    end.carry_out(command, clock)
                        .map_or_else(|error| Notice::Failed(error.to_string()), Notice::Calibrated)
                });
            }
            Request::Transfer(plan) => in_background(&notices, clock, move |notices, clock| {
                Notice::Finished(Box::new(run_client(&plan, clock, notices)))
            }),
        }
    }
}

#[derive(Default)]
struct Held {
    server: Option<(Server, Option<CertificateFingerprint>)>,
    calibration: Arc<CalibrationEnd>,
}

impl Held {
    fn serve(&mut self, plan: ServePlan, clock: &Arc<dyn Clock>) -> Notice {
        let identity = match plan.encrypted.then(|| ServerIdentity::self_made(&["pathbench".to_owned()])) {
            None => None,
            Some(Ok(identity)) => Some(Arc::new(identity)),
            Some(Err(error)) => return Notice::Failed(error.to_string()),
        };
        let fingerprint = identity.as_ref().map(|identity| identity.fingerprint());
        let options = ServerOptions {
            // In a lab the only client is the scenario's own.
            limits: Limits { max_duration: Duration::MAX, max_patience: Duration::MAX, ..Limits::default() },
            socket: plan.socket,
            identity,
            quic: plan.quic,
            sample_interval: plan.sample_interval,
            ..ServerOptions::new(vec![(plan.transport, plan.address)])
        };
        match Server::start(options, Arc::clone(clock)) {
            Ok(server) => {
                let addresses = server.addresses().iter().map(|&(_, address)| address).collect();
                self.server = Some((server, fingerprint));
                Notice::Serving { addresses, fingerprint }
            }
            Err(error) => Notice::Failed(error.to_string()),
        }
    }

    /// Fetched over loopback by the test protocol itself, as any client could fetch it over any path.
    fn record(&self, client: &EndRecord, clock: &Arc<dyn Clock>) -> Notice {
        let kept = self.server.as_ref().and_then(|(server, fingerprint)| {
            let &(transport, address) = server.addresses().first()?;
            let single = if is_quic(transport) { Transport::Quic } else { Transport::Tcp };
            let trust = fingerprint.filter(|_| is_quic(transport)).map(Trust::Fingerprint);
            let server = SocketAddr::new(loopback_of(address), address.port());
            let plan = FetchPlan {
                end_test: true,
                security: trust.map_or(Security::Clear, Security::Tls),
                ..FetchPlan::new(single, server, ANSWER_TIMEOUT)
            };
            Some(fetch_record(&plan, client, clock).map_err(|error| error.to_string()))
        });
        Notice::Record(Box::new(kept.unwrap_or_else(|| Err("there is no server".to_owned()))))
    }
}

const fn is_quic(transport: Transport) -> bool {
    matches!(transport, Transport::Quic | Transport::Mpquic)
}

const fn loopback_of(address: SocketAddr) -> IpAddr {
    if address.is_ipv4() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { IpAddr::V6(Ipv6Addr::LOCALHOST) }
}

/// Runs `work` on a thread of its own and tells what it returns, so that the channel's end is noticed meanwhile. The
/// orchestrator waits for an answer, so a panic is one, too.
fn in_background(
    notices: &Arc<Notices>,
    clock: &Arc<dyn Clock>,
    work: impl FnOnce(&Notices, &Arc<dyn Clock>) -> Notice + Send + 'static,
) {
    let (notices, clock) = (Arc::clone(notices), Arc::clone(clock));
    std::thread::spawn(move || {
        let answer = catch_unwind(AssertUnwindSafe(|| work(&notices, &clock)));
        notices.tell(&answer.unwrap_or_else(|_| Notice::Failed("the host's agent panicked".to_owned())));
    });
}

struct Notices {
    channel: Mutex<UnixStream>,
}

impl Notices {
    /// A notice that cannot be delivered means that the orchestrator is gone, which ends the agent elsewhere.
    fn tell(&self, notice: &Notice) {
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let _orchestrator_gone = channel::send(&*channel, notice);
    }
}

impl ClientObserver for Notices {
    fn on_first_byte(&self, at: Timestamp) {
        self.tell(&Notice::FirstByte(at));
    }

    fn on_progress(&self, progress: &Progress) {
        self.tell(&Notice::Progress(progress.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_kerneltest::MonotonicClock;

    /// Regression: the orchestrator waited for an answer that never came, for ever where the test has no duration.
    #[test]
    fn a_panic_is_an_answer() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let notices = Arc::new(Notices { channel: Mutex::new(theirs) });
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
        in_background(&notices, &clock, |_, _| panic!("injected"));
        ours.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let answer = channel::receive(&ours).unwrap();
        assert!(matches!(answer, Notice::Failed(message) if message.contains("panicked")));
    }
}
