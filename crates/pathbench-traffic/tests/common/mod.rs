//! A clock, a server and a client for tests over loopback.

#![allow(dead_code, reason = "each test binary uses its part")]

use pathbench_record::time::{Clock, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_traffic::client::ClientPlan;
use pathbench_traffic::pattern::PatternParameters;
use pathbench_traffic::protocol::TestId;
use pathbench_traffic::server::{Limits, Server, ServerOptions};
use pathbench_transport::SocketOptions;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Monotonic;

impl Clock for Monotonic {
    fn now(&self) -> Timestamp {
        #[allow(clippy::disallowed_methods, reason = "a test is an outermost shell")]
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Timestamp::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    fn sleep_until(&self, deadline: Timestamp) {
        std::thread::sleep(deadline.since(self.now()));
    }
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(Monotonic)
}

pub(crate) fn random_id() -> TestId {
    let mut id = [0; 16];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut id).unwrap();
    TestId(id)
}

pub(crate) fn limits() -> Limits {
    Limits { handshake_timeout: Duration::from_secs(2), ..Limits::default() }
}

pub(crate) fn server(transport: Transport, limits: Limits) -> (Server, SocketAddr) {
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
        patience: Duration::from_secs(5),
        ..ClientPlan::new(transport, server, random_id(), parameters.into())
    }
}
