//! The bodies of the fuzz targets. The ordinary tests run them, too.

#![allow(clippy::unwrap_used, reason = "a finding panics")]

use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use pathbench_transport::{
    ConnectOptions, ListenOptions, Listener, Security, ServerIdentity, Session, Trust,
};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
const SOURCES: u8 = 6;
const FLIGHTS: usize = 16;
/// Datagrams of one input, so that the kernel's queue of the server does not overflow.
const MOST_DATAGRAMS: usize = 40;

/// A QUIC server, first datagrams of clients, and the addresses that send.
struct Target {
    remote: SocketAddr,
    security: Security,
    flights: Vec<Vec<u8>>,
    sources: Vec<UdpSocket>,
}

static TARGET: LazyLock<Target> = LazyLock::new(Target::new);

fn clock() -> Arc<dyn Clock> {
    Arc::new(MonotonicClock)
}

impl Target {
    fn new() -> Self {
        let identity = Arc::new(ServerIdentity::self_signed(&["localhost".to_owned()]).unwrap());
        let security = Security::Tls(Trust::Fingerprint(identity.fingerprint()));
        let options = ListenOptions { identity: Some(identity), ..ListenOptions::default() };
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::open(Transport::Mpquic, anywhere, &options, &clock()).unwrap();
        let remote = listener.local_addr();
        // A stream that nobody accepts holds the slot of its connection.
        thread::spawn(move || while listener.accept().is_ok() {});
        let recorder = UdpSocket::bind(anywhere).unwrap();
        recorder.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buffer = vec![0; 65_536];
        let silent = recorder.local_addr().unwrap();
        let flights = (0..FLIGHTS).map(|_| {
            let options = ConnectOptions {
                security: security.clone(),
                ..ConnectOptions::new(silent, Duration::from_millis(1))
            };
            assert!(Session::new(Transport::Quic, options, clock()).open().is_err());
            let length = recorder.recv(&mut buffer).unwrap();
            buffer[..length].to_vec()
        });
        let flights = flights.collect();
        let source = |number| UdpSocket::bind((IpAddr::from([127, 0, number, 1]), 0)).unwrap();
        Self { remote, security, flights, sources: (0..SOURCES).map(source).collect() }
    }

    fn datagram(&self, kind: u8, bytes: &[u8]) -> Vec<u8> {
        let flight = |number: usize| &self.flights[number % FLIGHTS];
        let first = bytes.first().copied().map_or(0, usize::from);
        let mut datagram = flight(first).clone();
        match kind % 6 {
            0 => return bytes.to_vec(),
            // The first packet of a client.
            1 => {}
            // With another header: version, lengths of connection IDs, token.
            2 => bytes.chunks_exact(2).for_each(|change| datagram[usize::from(change[0]) % 64] = change[1]),
            3 => datagram.truncate(1 + first * 5),
            // Packets that share a datagram.
            4 => {
                datagram.extend_from_slice(bytes);
                datagram.extend_from_slice(flight(first + 1));
            }
            // A short header or another long one.
            _ => bytes.iter().zip(&mut datagram).for_each(|(byte, to)| *to = *byte),
        }
        datagram
    }
}

/// Honest clients so far.
static CLIENTS: AtomicUsize = AtomicUsize::new(0);

/// A sequence of datagrams from several addresses to a QUIC server. Afterwards a client connects at once.
pub(crate) fn datagrams(bytes: &[u8]) {
    let target = &*TARGET;
    let remote = target.remote;
    let mut rest = bytes;
    for _ in 0..MOST_DATAGRAMS {
        let [kind, source, length, left @ ..] = rest else { break };
        let (datagram, left) = left.split_at(usize::from(*length % 64).min(left.len()));
        let source = &target.sources[usize::from(source % SOURCES)];
        let _full = source.send_to(&target.datagram(*kind, datagram), remote);
        rest = left;
    }
    // The connections of earlier inputs are still closing, and count for their clients.
    let number = CLIENTS.fetch_add(1, Ordering::Relaxed);
    let options = ConnectOptions {
        security: target.security.clone(),
        local: Some(IpAddr::from([127, 0, 100 + (number / 16 % 100) as u8, 1 + (number % 16) as u8])),
        ..ConnectOptions::new(remote, PATIENCE)
    };
    Session::new(Transport::Quic, options, clock()).open().unwrap();
}
