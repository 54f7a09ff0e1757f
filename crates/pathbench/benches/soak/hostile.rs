//! Clients that send garbage, stay half-open, dribble, send false records, or flood with FETCH. None of them needs
//! an answer; all of them limit their sending rate.

use super::{Random, Soak, address_of};
use pathbench_record::delivery::DeliverySeries;
use pathbench_record::direction::DataDirection;
use pathbench_record::end::{EndRecord, TestId};
use pathbench_record::pattern::{Amount, ThroughputParameters};
use pathbench_record::sample::Side;
use pathbench_record::time::{Clock as _, Timestamp};
use pathbench_record::transport::Transport;
use pathbench_testkit::MonotonicClock;
use pathbench_traffic::protocol::{ControlFrame, EndFrame, Fetch, HelloFrame, VERSION, data_header};
use pathbench_transport::{ConnectOptions, Security, Session, Trust};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for the server to close; then the client does.
pub(crate) const HOLD: Duration = Duration::from_secs(15);

/// Payload of the tests that hostile clients begin.
pub(crate) const PAYLOAD_BYTES: u32 = 1000;

/// Between two attacks of one client.
const PAUSE_MS: std::ops::Range<u64> = 100..1500;

/// First bytes of a datagram that the probe responder looks at.
const PROBE_MAGIC: &[u8] = b"\x0bpbprobe";

pub(crate) type Attack = fn(&Soak, u32, &mut Random) -> std::io::Result<()>;

pub(crate) fn garbage(soak: &Soak, client: u32) {
    repeat(
        soak,
        client,
        &[
            ("random bytes over TCP", |soak, client, random| {
                let mut stream = connect(soak, client)?;
                let count = 1 + random.number_below(64 * 1024) as usize;
                stream.write_all(&random.bytes(count))?;
                read_until_closed(soak, &mut stream)
            }),
            ("a TLS record of garbage", |soak, client, random| {
                let mut stream = connect(soak, client)?;
                let body = random.bytes(2000);
                stream.write_all(&[&[0x16, 3, 1, 0x40, 0][..], &body].concat())?;
                read_until_closed(soak, &mut stream)
            }),
            ("a frame that says it is huge", |soak, client, random| {
                let mut stream = connect(soak, client)?;
                let kind = 1 + random.number_below(14) as u8;
                stream.write_all(&[kind, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff])?;
                stream.write_all(&random.bytes(4096))?;
                read_until_closed(soak, &mut stream)
            }),
            ("garbage after a valid HELLO", |soak, client, random| {
                let mut stream = connect(soak, client)?;
                write(&mut stream, &hello(random, "upload", PAYLOAD_BYTES).1)?;
                stream.write_all(&random.bytes(5000))?;
                read_until_closed(soak, &mut stream)
            }),
            ("datagrams of garbage", |soak, client, random| {
                let socket = UdpSocket::bind((address_of(client), 0))?;
                for _ in 0..20 {
                    let count = 20 + random.number_below(1180) as usize;
                    let mut bytes = random.bytes(count);
                    match random.number_below(3) {
                        // A long header of QUIC version 1: RFC 9000, section 17.2.
                        0 => bytes[..5].copy_from_slice(&[0xc0, 0, 0, 0, 1]),
                        1 => bytes[..8].copy_from_slice(PROBE_MAGIC),
                        _ => {}
                    }
                    socket.send_to(&bytes, soak.server.quic)?;
                }
                Ok(())
            }),
        ],
    );
}

pub(crate) fn half_open(soak: &Soak, client: u32) {
    repeat(
        soak,
        client,
        &[
            ("a connection without a byte", |soak, client, _| {
                read_until_closed(soak, &mut connect(soak, client)?)
            }),
            ("HELLO and silence", |soak, client, random| {
                let mut stream = connect(soak, client)?;
                write(&mut stream, &hello(random, "download", PAYLOAD_BYTES).1)?;
                read_until_closed(soak, &mut stream)
            }),
            ("START and silence", |soak, client, random| {
                let (mut stream, _) = started(soak, client, random, "upload", PAYLOAD_BYTES)?;
                read_until_closed(soak, &mut stream)
            }),
            ("a client that dies in mid-transfer", |soak, client, random| {
                let (mut stream, _) = started(soak, client, random, "upload", PAYLOAD_BYTES)?;
                stream.write_all(&data_header(PAYLOAD_BYTES))?;
                stream.write_all(&random.bytes(300))
            }),
            ("a download that is never read", |soak, client, random| {
                let (stream, _) = started(soak, client, random, "download", 50_000_000)?;
                soak.pause(HOLD);
                drop(stream);
                Ok(())
            }),
            ("a QUIC connection without a stream", |soak, client, _| {
                let Ok(fingerprint) = soak.server.fingerprint.parse() else { return Ok(()) };
                let options = ConnectOptions {
                    local: Some(address_of(client).into()),
                    security: Security::Tls(Trust::Fingerprint(fingerprint)),
                    ..ConnectOptions::new(soak.server.quic, HOLD)
                };
                let session = Session::new(Transport::Quic, options, Arc::new(MonotonicClock));
                let connection = session.open().map_err(std::io::Error::other)?;
                soak.pause(HOLD);
                connection.abort();
                Ok(())
            }),
        ],
    );
}

pub(crate) fn dribble(soak: &Soak, client: u32) {
    repeat(
        soak,
        client,
        &[
            ("a HELLO byte by byte", |soak, client, random| {
                let mut stream = connect(soak, client)?;
                let bytes = encoded(&hello(random, "upload", PAYLOAD_BYTES).1)?;
                dribble_bytes(soak, &mut stream, &bytes)
            }),
            ("a RECORD byte by byte", |soak, client, random| {
                let (mut stream, _) = uploaded(soak, client, random)?;
                let record = encoded(&ControlFrame::Record(vec![b' '; 5000]))?;
                dribble_bytes(soak, &mut stream, &record)
            }),
            ("a record that lies, and FETCH", |soak, client, random| {
                let (mut stream, test) = uploaded(soak, client, random)?;
                write(&mut stream, &ControlFrame::Record(lie(test)?))?;
                let fetch = ControlFrame::Fetch(Fetch { version: VERSION, test, end_test: false });
                for _ in 0..5 {
                    let mut asking = connect(soak, client)?;
                    write(&mut asking, &fetch)?;
                    let _ = asking.read(&mut [0; 64])?;
                }
                read_until_closed(soak, &mut stream)
            }),
            ("FETCH of a test that never was", |soak, client, random| {
                for _ in 0..20 {
                    let mut stream = connect(soak, client)?;
                    let test = hello(random, "upload", PAYLOAD_BYTES).0;
                    write(
                        &mut stream,
                        &ControlFrame::Fetch(Fetch { version: VERSION, test, end_test: true }),
                    )?;
                    read_until_closed(soak, &mut stream)?;
                }
                Ok(())
            }),
            ("a download that is read slowly", |soak, client, random| {
                let (mut stream, _) = started(soak, client, random, "download", 50_000_000)?;
                let until = MonotonicClock.now() + HOLD;
                while soak.runs() && MonotonicClock.now() < until && stream.read(&mut [0; 1024])? > 0 {
                    soak.pause(Duration::from_millis(100));
                }
                Ok(())
            }),
        ],
    );
}

/// One attack after the other until the end. Errors are expected.
pub(crate) fn repeat(soak: &Soak, client: u32, attacks: &[(&str, Attack)]) {
    let mut random = Random::new(client);
    while soak.runs() {
        let (name, attack) = attacks[random.number_below(attacks.len() as u64) as usize];
        let _ = attack(soak, client, &mut random);
        soak.count(&format!("attacks: {name}"));
        soak.pause(random.milliseconds(PAUSE_MS));
    }
}

fn connect(soak: &Soak, client: u32) -> std::io::Result<TcpStream> {
    connect_from(soak, address_of(client))
}

pub(crate) fn connect_from(soak: &Soak, source: Ipv4Addr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect_timeout(&soak.server.tcp.into(), HOLD)?;
    socket.set_read_timeout(Some(HOLD))?;
    socket.set_write_timeout(Some(HOLD))?;
    Ok(socket.into())
}

pub(crate) fn hello(random: &mut Random, direction: &str, bytes: u32) -> (TestId, ControlFrame) {
    let mut test = TestId([0; 16]);
    test.0.copy_from_slice(&random.bytes(16));
    let request = format!(
        r#"{{"pattern":"throughput","transport":"tcp","patience_ms":5000,"parameters":{{
            "direction":"{direction}","streams":1,"amount":{{"bytes":{bytes}}},"block_bytes":131072}}}}"#
    );
    (test, ControlFrame::Hello(HelloFrame::new(test, 0, request.into_bytes())))
}

/// A client that has sent START.
pub(crate) fn started(
    soak: &Soak,
    client: u32,
    random: &mut Random,
    direction: &str,
    bytes: u32,
) -> std::io::Result<(TcpStream, TestId)> {
    let mut stream = connect(soak, client)?;
    let (test, hello) = hello(random, direction, bytes);
    write(&mut stream, &hello)?;
    let mut accept = [0; 8];
    stream.read_exact(&mut accept)?;
    write(&mut stream, &ControlFrame::Start)?;
    Ok((stream, test))
}

/// A client that has only its record left to send.
fn uploaded(soak: &Soak, client: u32, random: &mut Random) -> std::io::Result<(TcpStream, TestId)> {
    let (mut stream, test) = started(soak, client, random, "upload", PAYLOAD_BYTES)?;
    stream.write_all(&data_header(PAYLOAD_BYTES))?;
    stream.write_all(&vec![0; PAYLOAD_BYTES as usize])?;
    write(
        &mut stream,
        &ControlFrame::End(EndFrame { bytes: PAYLOAD_BYTES.into(), elapsed_ns: 1, cut_short: false }),
    )?;
    Ok((stream, test))
}

/// A record whose series begins at the end of time, so that a sum of it takes 10^12 bins.
fn lie(test: TestId) -> std::io::Result<Vec<u8>> {
    let end = Timestamp::from_nanos(u64::MAX);
    let series = DeliverySeries {
        bytes: vec![u64::MAX; 2],
        first: Some(end),
        last: Some(end),
        ..DeliverySeries::starting_at(end)
    };
    let record = EndRecord {
        side: Side::Client,
        test,
        transport: Transport::Tcp,
        parameters: ThroughputParameters {
            direction: DataDirection::Upload,
            amount: Amount::Bytes(PAYLOAD_BYTES.into()),
            ..ThroughputParameters::default()
        }
        .into(),
        started: Timestamp::from_nanos(0),
        ended: end,
        deliveries: series.clone(),
        offered: series,
        messages: Vec::new(),
        response: None,
        datagrams: None,
        path_events: Vec::new(),
        handshake: None,
        fct: None,
        rate_limit_bps: Some(u64::MAX),
        mptcp_counters: None,
        streams: Vec::new(),
        samples: Vec::new(),
        samples_thinned_by: u32::MAX,
        completed: true,
        errors: vec!["\u{1b}[2J".repeat(1000)],
        cpu: None,
        tcp_buffers: None,
    };
    serde_json::to_vec(&record).map_err(std::io::Error::other)
}

fn encoded(frame: &ControlFrame) -> std::io::Result<Vec<u8>> {
    frame.encode().map_err(std::io::Error::other)
}

pub(crate) fn write(stream: &mut TcpStream, frame: &ControlFrame) -> std::io::Result<()> {
    stream.write_all(&encoded(frame)?)
}

fn dribble_bytes(soak: &Soak, stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    for byte in bytes {
        if !soak.runs() {
            break;
        }
        stream.write_all(&[*byte])?;
        soak.pause(Duration::from_millis(200));
    }
    Ok(())
}

fn read_until_closed(soak: &Soak, stream: &mut TcpStream) -> std::io::Result<()> {
    let until = MonotonicClock.now() + HOLD;
    while soak.runs() && MonotonicClock.now() < until && stream.read(&mut [0; 4096])? > 0 {}
    Ok(())
}
