//! A clock, a server and a client for tests over loopback.

#![allow(dead_code, reason = "each test binary uses its part")]

use pathbench_api::name::Name;
use pathbench_record::end::TestId;
use pathbench_record::pattern::PatternParameters;
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_testkit::{FixedClock, MonotonicClock};
use pathbench_traffic::client::ClientPlan;
use pathbench_traffic::protocol::{ControlFrame, DecodedEvent, Decoder};
use pathbench_traffic::server::{Access, Server, ServerLimits, ServerOptions};
use pathbench_traffic::token::{Audience, RevokedTokens, TokenKey};
use pathbench_transport::{Security, ServerIdentity, Trust, mptcp_available};

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(MonotonicClock)
}

pub(crate) fn random_id() -> TestId {
    let mut id = [0; 16];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut id).unwrap();
    TestId(id)
}

pub(crate) fn server(transport: Transport, limits: ServerLimits) -> (Server, SocketAddr) {
    let options = ServerOptions {
        limits,
        sample_interval: Duration::from_millis(20),
        ..ServerOptions::new(vec![(transport, SocketAddr::from(([127, 0, 0, 1], 0)))])
    };
    let server = Server::start(options, clock()).unwrap();
    let address = server.addresses()[0].1;
    (server, address)
}

pub(crate) fn plan(
    transport: Transport,
    server: SocketAddr,
    parameters: impl Into<PatternParameters>,
) -> ClientPlan {
    ClientPlan {
        sample_interval: Duration::from_millis(20),
        ..ClientPlan::new(transport, server, random_id(), parameters.into())
    }
}

pub(crate) fn send(stream: &mut TcpStream, frame: &ControlFrame) {
    stream.write_all(&frame.encode().unwrap()).unwrap();
}

/// The next control frame; DATA is skipped. `None` at the end, or when nothing comes for long. Reads no byte behind it.
pub(crate) fn next_frame(stream: &mut TcpStream) -> Option<ControlFrame> {
    let mut decoder = Decoder::new(8 << 20);
    let mut byte = [0];
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    loop {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        if let (_, Some(DecodedEvent::Frame(frame))) = decoder.decode(&byte).unwrap() {
            return Some(frame);
        }
    }
}

/// A QUIC server that requires a token, and a valid token.
pub(crate) fn server_with_token() -> (Server, SocketAddr, String) {
    let key = TokenKey::from_text(&"k".repeat(32)).unwrap();
    let token = key
        .mint(Audience::Test, &Name::new("alice").unwrap(), [7; 8], 1000, Duration::from_secs(60))
        .unwrap();
    let identity = ServerIdentity::self_signed(&["localhost".to_owned()]).unwrap();
    let options = ServerOptions {
        access: Access::Token {
            key,
            clock: Arc::new(FixedClock::from_unix(1010)),
            revoked: RevokedTokens::default(),
        },
        identity: Some(Arc::new(identity)),
        ..ServerOptions::new(vec![(Transport::Quic, SocketAddr::from(([127, 0, 0, 1], 0)))])
    };
    let server = Server::start(options, clock()).unwrap();
    let address = server.addresses()[0].1;
    (server, address, token)
}

/// A server of every transport that this kernel has, with a certificate.
pub(crate) struct Everything {
    pub(crate) server: Server,
    pub(crate) addresses: Vec<(Transport, SocketAddr)>,
    security: Security,
}

impl Everything {
    pub(crate) fn start(limits: ServerLimits) -> Self {
        let identity = ServerIdentity::self_signed(&["localhost".to_owned()]).unwrap();
        let security = Security::Tls(Trust::Fingerprint(identity.fingerprint()));
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let stream = if mptcp_available().is_ok() { Transport::Mptcp } else { Transport::Tcp };
        let options = ServerOptions {
            limits,
            identity: Some(Arc::new(identity)),
            sample_interval: Duration::from_millis(20),
            ..ServerOptions::new(vec![(stream, anywhere), (Transport::Mpquic, anywhere)])
        };
        let server = Server::start(options, clock()).unwrap();
        let [(_, of_streams), (_, of_datagrams)] = *server.addresses() else { panic!("two listeners") };
        let mut addresses = vec![
            (Transport::Tcp, of_streams),
            (Transport::Quic, of_datagrams),
            (Transport::Mpquic, of_datagrams),
        ];
        if stream == Transport::Mptcp {
            addresses.push((Transport::Mptcp, of_streams));
        }
        Self { server, addresses, security }
    }

    /// The address where it serves QUIC and answers probes.
    pub(crate) fn quic_address(&self) -> SocketAddr {
        self.addresses.iter().find(|(transport, _)| *transport == Transport::Mpquic).unwrap().1
    }

    /// A test over its transport number `index`, modulo their count.
    pub(crate) fn plan(&self, index: usize, parameters: impl Into<PatternParameters>) -> ClientPlan {
        let (transport, address) = self.addresses[index % self.addresses.len()];
        let encrypts = matches!(transport, Transport::Quic | Transport::Mpquic);
        ClientPlan {
            security: if encrypts { self.security.clone() } else { Security::Clear },
            ..plan(transport, address, parameters)
        }
    }

    /// A test over each of its transports; with optional encryption, one without and one with it.
    pub(crate) fn plans(&self, parameters: &PatternParameters) -> Vec<ClientPlan> {
        let mut plans: Vec<ClientPlan> =
            (0..self.addresses.len()).map(|index| self.plan(index, parameters.clone())).collect();
        let clear = plans.iter().filter(|plan| plan.security == Security::Clear);
        let encrypted: Vec<ClientPlan> = clear
            .map(|plan| ClientPlan { security: self.security.clone(), test: random_id(), ..plan.clone() })
            .collect();
        plans.extend(encrypted);
        plans
    }
}
