//! Attacks on the connections: bytes that are no HTTP, heads and bodies that never end, floods.

use super::Soak;
use super::client::head;
use super::hostile::{Attack, HOLD};
use pathbench_record::time::Clock as _;
use pathbench_testkit::MonotonicClock;
use socket2::Socket;
use std::io::{self, Read as _, Write as _};
use std::time::Duration;

pub(crate) const ATTACKS: [(&str, Attack); 8] = [
    ("random bytes", |soak, http, random| {
        let count = 1 + random.number_below(64 << 10) as usize;
        let socket = http.send("", &random.bytes(count))?;
        read_until_closed(soak, &socket)
    }),
    ("heads that break the rules", |soak, http, random| {
        const HEADS: [&str; 6] = [
            "GET / HTTP/9.9\r\n\r\n",
            "POST /v1/results HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "POST /v1/results HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n",
            "POST /v1/results HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}",
        ];
        read_until_closed(soak, &http.send(random.one_of(&HEADS), &[])?)
    }),
    ("huge heads", |soak, http, random| {
        let socket = http.connect()?;
        let _ = (&socket).write_all(b"GET / HTTP/1.1\r\nHost: x\r\n");
        for index in 0..2000 {
            let line = format!("X-{index}: {}\r\n", "a".repeat(random.number_below(2000) as usize));
            if (&socket).write_all(line.as_bytes()).is_err() {
                break;
            }
        }
        read_until_closed(soak, &socket)
    }),
    ("50 half-open connections", |soak, http, _| {
        let open: Vec<Socket> = (0..50).filter_map(|_| http.connect().ok()).collect();
        soak.pause(HOLD);
        drop(open);
        Ok(())
    }),
    ("a head byte by byte", |soak, http, _| {
        dribble(soak, &http.connect()?, head("GET", "/v1/results", &[]).as_bytes())
    }),
    ("a body byte by byte", |soak, http, _| {
        let socket = http.send(&head("POST", "/v1/results", &[("Content-Length", "70000")]), &[])?;
        dribble(soak, &socket, &[b'{'; 500])
    }),
    ("chunks that never end", |soak, http, _| {
        let socket = http.send(&head("POST", "/v1/check-in", &[("Transfer-Encoding", "chunked")]), &[])?;
        let chunk = [b"4000\r\n".as_slice(), &[b' '; 0x4000], b"\r\n"].concat();
        for _ in 0..200 {
            (&socket).write_all(&chunk)?;
        }
        read_until_closed(soak, &socket)
    }),
    ("a flood of 1,000 pipelined requests", |soak, http, random| {
        let path = random.one_of(&["/", "/v1/results?limit=200", "/health", "/nothing"]);
        let socket = http.connect()?;
        socket.set_write_timeout(Some(HOLD))?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        (&socket).write_all(request.repeat(1000).as_bytes())?;
        read_until_closed(soak, &socket)
    }),
];

fn dribble(soak: &Soak, mut socket: &Socket, bytes: &[u8]) -> io::Result<()> {
    let until = MonotonicClock.now() + 2 * HOLD;
    for byte in bytes {
        if !soak.runs() || MonotonicClock.now() > until {
            break;
        }
        socket.write_all(&[*byte])?;
        soak.pause(Duration::from_millis(200));
    }
    Ok(())
}

fn read_until_closed(soak: &Soak, mut socket: &Socket) -> io::Result<()> {
    socket.set_read_timeout(Some(HOLD))?;
    let until = MonotonicClock.now() + HOLD;
    while soak.runs() && MonotonicClock.now() < until && socket.read(&mut [0; 4096])? > 0 {}
    Ok(())
}
