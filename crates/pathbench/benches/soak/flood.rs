//! Clients that take what many addresses get: first packets of QUIC, silent tests of one network, cookies of others, and
//! all bytes of a day.

use super::hostile::{HOLD, PAYLOAD_BYTES, connect_from, hello, repeat, started, write};
use super::{Random, Soak, address_of};
use pathbench_record::time::Clock as _;
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use pathbench_traffic::datagram::{DatagramKind, DatagramMessage};
use pathbench_traffic::protocol::ControlFrame;
use pathbench_transport::{ConnectOptions, Security, Session, Trust};
use std::io::Read as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// First packets, each of a QUIC client of its own.
pub(crate) const FLIGHTS: usize = 64;

/// Addresses that one client has in its network.
const ADDRESSES: u8 = 12;

/// A download that counts towards the quota of a day.
const GLUTTON_BYTES: u32 = 20_000_000;

const COOKIE_REQUESTS: u32 = 100;

/// The first datagrams of clients that nobody answers.
pub(crate) fn first_flights(fingerprint: &str) -> Result<Vec<Vec<u8>>, String> {
    let words = |error: &dyn std::fmt::Display| format!("recording first packets: {error}");
    let trust = Trust::Fingerprint(fingerprint.parse().map_err(|error| words(&error))?);
    let flight = |_| {
        let recorder = UdpSocket::bind("127.0.0.1:0").map_err(|error| words(&error))?;
        recorder.set_read_timeout(Some(HOLD)).map_err(|error| words(&error))?;
        let options = ConnectOptions {
            security: Security::Tls(trust.clone()),
            ..ConnectOptions::new(
                recorder.local_addr().map_err(|error| words(&error))?,
                Duration::from_millis(1),
            )
        };
        // The connection fails: what counts is the datagram.
        let _ = Session::new(Transport::Quic, options, Arc::new(MonotonicClock)).open();
        let mut buffer = vec![0; 65_536];
        let length = recorder.recv(&mut buffer).map_err(|error| words(&error))?;
        buffer.truncate(length);
        Ok(buffer)
    };
    (0..FLIGHTS).map(flight).collect()
}

pub(crate) fn run(soak: &Soak, client: u32) {
    repeat(
        soak,
        client,
        &[
            ("first packets of QUIC from many addresses", |soak, client, random| {
                let sources = (0..ADDRESSES)
                    .map(|host| {
                        let far = Ipv4Addr::new(127, 10 + client as u8 % 16, random.number() as u8, 1 + host);
                        UdpSocket::bind((if host % 2 == 0 { far } else { neighbour(client, host) }, 0))
                    })
                    .collect::<Result<Vec<_>, _>>()?;
                for _ in 0..20 {
                    for (index, flight) in soak.flights.iter().enumerate() {
                        let _full = sources[index % sources.len()].send_to(flight, soak.server.quic);
                    }
                    soak.pause(Duration::from_millis(50));
                }
                Ok(())
            }),
            ("silent tests of one network", |soak, client, random| {
                let mut held = Vec::new();
                for host in 0..ADDRESSES {
                    let mut stream = connect_from(soak, neighbour(client, host))?;
                    write(&mut stream, &hello(random, "upload", PAYLOAD_BYTES).1)?;
                    write(&mut stream, &ControlFrame::Start)?;
                    held.push(stream);
                }
                soak.pause(HOLD);
                drop(held);
                Ok(())
            }),
            ("a cookie of another address", cookie_of_another),
            ("a download for the quota of the day", |soak, client, random| {
                let (mut stream, _) = started(soak, client, random, "download", GLUTTON_BYTES)?;
                let mut buffer = vec![0; 1 << 16];
                let mut received = 0;
                let until = MonotonicClock.now() + HOLD;
                while soak.runs() && MonotonicClock.now() < until && received < GLUTTON_BYTES as usize {
                    match stream.read(&mut buffer)? {
                        0 => break,
                        length => received += length,
                    }
                }
                if received < 1000 {
                    soak.count("downloads refused beyond the quota of a day");
                }
                Ok(())
            }),
        ],
    );
}

fn cookie_of_another(soak: &Soak, client: u32, _: &mut Random) -> std::io::Result<()> {
    let [own, other] = [address_of(client), neighbour(client, 200)].map(|source| {
        let socket = UdpSocket::bind((source, 0))?;
        socket.connect(soak.server.quic)?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok::<_, std::io::Error>(socket)
    });
    let (own, other) = (own?, other?);
    own.send(&DatagramMessage::new(DatagramKind::Hello, 9, 0).encode(0))?;
    let mut buffer = vec![0; 65_536];
    let length = own.recv(&mut buffer)?;
    let cookie = DatagramMessage::decode(&buffer[..length]).map_or(0, |answer| answer.cookie);
    for sequence in 0..COOKIE_REQUESTS {
        let request = DatagramMessage::new(DatagramKind::SizeRequest, 9, sequence).with_sizes(60_000, 0);
        let request = DatagramMessage { cookie, ..request };
        own.send(&request.encode(0))?;
        other.send(&request.encode(0))?;
    }
    if let Ok(length) = other.recv(&mut buffer) {
        soak.fail(format!("{length} bytes for the cookie of another address"));
    }
    Ok(())
}

/// Another address of the client's network.
fn neighbour(client: u32, host: u8) -> Ipv4Addr {
    let [a, b, c, _] = address_of(client).octets();
    Ipv4Addr::new(a, b, c, 20 + (client as u8 % 8) * 16 + host % 100)
}
