//! Clients that flood, dribble, lie about lengths, or keep connections: each is bounded, and others are served.

use crate::support::connections::{connect, is_alive, rest};
use crate::support::process::Collector;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

#[test]
fn a_head_that_dribbles_is_given_up() {
    let collector = Collector::start(&["--open"]);
    let mut stream = connect(&collector);
    stream.write_all(b"POST /v1/results HTTP/1.1\r\nHost: x\r\n").unwrap();
    let writer = stream.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut writer = writer;
        while writer.write_all(b"X-A: b\r\n").is_ok() {
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    rest(stream);
    assert!(is_alive(&collector));
}

#[test]
fn a_body_of_a_gigabyte_is_rejected_by_its_length_and_by_its_bytes() {
    let collector = Collector::start(&["--open"]);
    let mut stream = connect(&collector);
    stream
        .write_all(b"POST /v1/results HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1073741824\r\n\r\n")
        .unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 413");
    let mut stream = connect(&collector);
    stream.write_all(b"POST /v1/results HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    // The collector stops reading long before a gigabyte.
    let sent = (0..1024).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(sent < 100, "{sent} MiB were accepted");
    assert!(is_alive(&collector));
}

#[test]
fn garbage_is_answered_or_closed() {
    let collector = Collector::start(&["--open"]);
    for garbage in [
        b"\0\0\0\0\r\n\r\n".as_slice(),
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/results HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/results HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ] {
        let mut stream = connect(&collector);
        stream.write_all(garbage).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = rest(stream);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000));
    let mut stream = connect(&collector);
    let _ = stream.write_all(long.as_bytes());
    let answer = rest(stream);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert!(is_alive(&collector));
}

/// Opens a connection from an address of 127.0.0.0/8, which is a client of its own.
fn connect_from(client: Ipv4Addr, to: SocketAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((client, 0)).into())?;
    socket.connect_timeout(&to.into(), Duration::from_secs(10))?;
    Ok(socket)
}

#[test]
fn ten_thousand_connections_leave_room_for_others() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    assert!(maximum.is_none_or(|maximum| maximum > 10_500), "this test needs 10,500 descriptors: ulimit -Hn");
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    }
    let collector = Collector::start(&["--open"]);
    let address: SocketAddr = collector.address().parse().unwrap();
    let attacker = Ipv4Addr::new(127, 0, 0, 99);
    let mut connections: Vec<Socket> = Vec::new();
    for _ in 0..100 {
        connections.extend((0..100).filter_map(|_| connect_from(attacker, address).ok()));
        // Behind them in the queue of the listening socket, which therefore is never full: no SYN is sent again.
        assert_eq!(collector.get("/health").status, 200);
    }
    assert!(connections.len() > 9_000, "{} were opened", connections.len());
    // The client has its share, and everybody else is served.
    assert!(is_alive(&collector));
    let open = connections.iter().filter(|connection| {
        connection.set_nonblocking(true).unwrap();
        let mut byte = [std::mem::MaybeUninit::uninit()];
        matches!(connection.recv(&mut byte), Err(error) if error.kind() == ErrorKind::WouldBlock)
    });
    let open = open.count();
    assert!(open <= 512, "{open} connections of one client are open");
    drop(connections);
    assert!(is_alive(&collector));
}

#[test]
fn many_bodies_at_once_are_bounded_in_memory() {
    let collector = Collector::start(&["--open", "--body-memory", "32", "--rate-limit", "0"]);
    // Each holds 8 MiB of a body that never ends.
    let streams: Vec<TcpStream> = (0..12)
        .map(|_| {
            let mut stream = connect(&collector);
            stream
                .write_all(b"POST /v1/results HTTP/1.1\r\nHost: x\r\nContent-Length: 15000000\r\n\r\n")
                .unwrap();
            let mut writer = stream.try_clone().unwrap();
            std::thread::spawn(move || writer.write_all(&vec![b' '; 8 << 20]));
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_secs(2));
    let status = std::fs::read_to_string(format!("/proc/{}/status", collector.pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident_kib: u64 = resident.trim().trim_end_matches(" kB").trim().parse().unwrap();
    assert!(resident_kib < 160 << 10, "{resident_kib} KiB are resident");
    drop(streams);
    assert!((0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(200));
        is_alive(&collector)
    }));
}
