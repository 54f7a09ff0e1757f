//! Senders and receivers.

use crate::fixture::Host;
use libtest_mimic::Failed;
use pathbench_testkit::ensure;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Warm-up of a stream before it is measured.
const WARM_UP: Duration = Duration::from_millis(1_500);

/// A TCP stream from one host to another for `time`, while `aside` runs: payload bits per second at the receiver, and
/// the result of `aside`. `pace_bps` limits the sender (`SO_MAX_PACING_RATE`, which counts the headers).
pub(crate) fn stream<R>(
    from: &Host,
    to: &Host,
    address: IpAddr,
    time: Duration,
    pace_bps: Option<u64>,
    aside: impl FnOnce() -> Result<R, Failed>,
) -> Result<(f64, R), Failed> {
    let listener = to.namespace.run_in(|| TcpListener::bind((address, 0)))??;
    let to = listener.local_addr()?;
    let sender = from.namespace.run_in(|| TcpStream::connect(to))??;
    let (receiver, _) = listener.accept()?;
    for socket in [&sender, &receiver] {
        // Fills a long link, and every kernel has it.
        SockRef::from(socket)
            .set_tcp_congestion(b"cubic")
            .or_else(|_| SockRef::from(socket).set_tcp_congestion(b"reno"))?;
    }
    if let Some(bps) = pace_bps {
        pace(&sender, bps / 8)?;
    }
    let (done, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let block = vec![0; 128 << 10];
            while !done.load(Ordering::Relaxed) {
                if (&sender).write_all(&block).is_err() {
                    return;
                }
            }
        });
        scope.spawn(|| {
            let mut block = vec![0; 256 << 10];
            while let Ok(length) = (&receiver).read(&mut block) {
                if length == 0 {
                    return;
                }
                bytes.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        std::thread::sleep(WARM_UP);
        let (begun, before) = (Instant::now(), bytes.load(Ordering::Relaxed));
        let result = aside();
        std::thread::sleep(time.saturating_sub(begun.elapsed()));
        let (after, elapsed) = (bytes.load(Ordering::Relaxed), begun.elapsed());
        done.store(true, Ordering::Relaxed);
        sender.shutdown(std::net::Shutdown::Both)?;
        receiver.shutdown(std::net::Shutdown::Both)?;
        Ok(((after - before) as f64 * 8.0 / elapsed.as_secs_f64(), result?))
    })
}

fn pace(stream: &TcpStream, bytes_per_second: u64) -> Result<(), Failed> {
    // SAFETY: setsockopt(2) reads the one number it is given, which lives until it returns.
    #[allow(unsafe_code, reason = "no crate of the workspace knows SO_MAX_PACING_RATE")]
    let answer = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes_per_second).cast(),
            size_of_val(&bytes_per_second) as libc::socklen_t,
        )
    };
    ensure!(answer == 0, "SO_MAX_PACING_RATE: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Sends datagrams of `bytes` IP bytes as fast as one thread can for `time`; returns datagrams received per second.
pub(crate) fn datagrams(
    (client, server): (UdpSocket, UdpSocket),
    bytes: usize,
    time: Duration,
) -> Result<f64, Failed> {
    server.set_read_timeout(Some(Duration::from_millis(200)))?;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let (mut inbox, mut count) = ([0; 2_048], 0_u64);
            while server.recv(&mut inbox).is_ok() {
                count += 1;
            }
            count
        });
        let datagram = vec![0; bytes - 28];
        let begun = Instant::now();
        while begun.elapsed() < time {
            for _ in 0..64 {
                client.send(&datagram)?;
            }
        }
        let count = receiver.join().map_err(|_| "the receiver panicked")?;
        Ok(count as f64 / time.as_secs_f64())
    })
}

/// Round-trip times of ICMP echo requests to `address`, one every 5 ms for `time`, sorted.
pub(crate) fn pings(from: &Host, address: IpAddr, time: Duration) -> Result<Vec<Duration>, Failed> {
    let socket = from.namespace.run_in(|| Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)))??;
    socket.connect(&SockAddr::from(SocketAddr::new(address, 0)))?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let (begun, mut times) = (Instant::now(), Vec::new());
    while begun.elapsed() < time {
        let number = times.len() as u16;
        let [high, low] = number.to_be_bytes();
        let [sum_high, sum_low] = (!(0x0800_u16 + number)).to_be_bytes();
        let sent = Instant::now();
        socket.send(&[8, 0, sum_high, sum_low, 0, 0, high, low])?;
        let mut answer = [0; 128];
        while (&socket).read(&mut answer)? < 28 || answer[20] != 0 || answer[26..28] != [high, low] {}
        times.push(sent.elapsed());
        std::thread::sleep(Duration::from_millis(5));
    }
    times.sort();
    Ok(times)
}

/// Processor time of the data plane's thread.
pub(crate) fn plane_cpu() -> Result<Duration, Failed> {
    for task in std::fs::read_dir("/proc/thread-self/../")? {
        let task = task?.path();
        if std::fs::read_to_string(task.join("comm"))?.trim() == "links" {
            let text = std::fs::read_to_string(task.join("schedstat"))?;
            let nanos = text.split(' ').next().unwrap_or_default().parse()?;
            return Ok(Duration::from_nanos(nanos));
        }
    }
    Err("no thread called links".into())
}
