//! GSO packets of hosts, and their arrival at the far host.

use crate::fixture::{Lab, delayed, v4, v6};
use libtest_mimic::Failed;
use pathbench_emulator::plane::{DirectionReport, LinkReport};
use pathbench_link::{Discipline, LinkModel, LossModel, RateModel};
use pathbench_record::network::ETHERNET_HEADER_BYTES;
use pathbench_record::units::QueueLimit;
use pathbench_testkit::{TrialOutcome, ensure, tests};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

tests![
    streams_over_a_bad_link_are_whole,
    streams_over_a_good_link_are_whole_and_pass_whole,
    streams_over_a_shaped_link_are_whole,
    hosts_may_cut_their_packets_themselves,
    datagrams_are_cut_one_by_one,
    marked_packets_keep_their_content,
];

/// The byte at a place of a stream.
fn content(place: u64) -> u8 {
    (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

fn write(mut stream: &TcpStream, bytes: u64) -> std::io::Result<()> {
    let mut block = vec![0; 128 << 10];
    let mut place = 0;
    while place < bytes {
        let length = block.len().min((bytes - place) as usize);
        for (byte, at) in block[..length].iter_mut().zip(place..) {
            *byte = content(at);
        }
        stream.write_all(&block[..length])?;
        place += length as u64;
    }
    stream.shutdown(std::net::Shutdown::Write)
}

fn read(mut stream: &TcpStream, bytes: u64) -> TrialOutcome {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut block = vec![0; 128 << 10];
    let mut place = 0;
    loop {
        let length = stream.read(&mut block)?;
        if length == 0 {
            ensure!(place == bytes, "{place} of {bytes} B arrived");
            return Ok(());
        }
        for (byte, at) in block[..length].iter().zip(place..) {
            ensure!(*byte == content(at), "a wrong byte at {at}");
        }
        place += length as u64;
    }
}

/// Sends `bytes` in both directions at once.
fn exchange(lab: &Lab, address: fn(u8) -> IpAddr, bytes: u64) -> TrialOutcome {
    let listener = lab.server.namespace.run_in(|| TcpListener::bind((address(2), 0)))??;
    let to = listener.local_addr()?;
    let client =
        lab.client.namespace.run_in(|| TcpStream::connect_timeout(&to, Duration::from_secs(10)))??;
    let (server, _) = listener.accept()?;
    std::thread::scope(|scope| {
        let sides = [scope.spawn(|| write(&client, bytes)), scope.spawn(|| write(&server, bytes))];
        let server_reads = scope.spawn(|| read(&server, bytes));
        let client_reads = read(&client, bytes);
        server_reads.join().map_err(|_| "a reader panicked")??;
        client_reads?;
        for side in sides {
            side.join().map_err(|_| "a writer panicked")??;
        }
        Ok(())
    })
}

fn ensure_no_refusals(report: &LinkReport) -> TrialOutcome {
    for direction in &report.directions {
        ensure!(direction.overrun_packets == 0, "{direction:?}");
    }
    Ok(())
}

/// Every packet that was put in is counted by the length that it has on the wire.
fn sizes_add_up(direction: &DirectionReport, overhead_bytes: u32, largest_bytes: u32) -> TrialOutcome {
    let DirectionReport { statistics, offered_sizes, .. } = direction;
    let packets: u64 = offered_sizes.values().sum();
    let bytes: u64 =
        offered_sizes.iter().map(|(bytes, count)| u64::from(bytes + overhead_bytes) * count).sum();
    ensure!(packets == statistics.offered_packets, "{packets} of {statistics:?}");
    ensure!(bytes == statistics.offered_bytes, "{bytes} B of {statistics:?}");
    let largest = offered_sizes.keys().next_back();
    ensure!(largest == Some(&largest_bytes), "{largest:?} instead of {largest_bytes}");
    Ok(())
}

/// Loss, duplication, corruption and little delay: a wrong header or checksum would break the stream's content
/// or keep it from ending.
fn streams_over_a_bad_link_are_whole() -> TrialOutcome {
    let model = LinkModel {
        loss: LossModel::Independent(0.005),
        duplicate: 0.01,
        corrupt: 0.005,
        ..delayed(Duration::from_micros(500))
    };
    let lab = Lab::symmetric(&model)?;
    exchange(&lab, v4, 8_000_000)?;
    exchange(&lab, v6, 8_000_000)?;
    let report = lab.report()?;
    ensure_no_refusals(&report)?;
    for DirectionReport { statistics, .. } in &report.directions {
        // 16 MB are 11,000 full wire packets at least.
        ensure!(statistics.offered_packets > 11_000, "{statistics:?}");
        ensure!(statistics.corrupted_packets > 20 && statistics.duplicated_packets > 50, "{statistics:?}");
    }
    Ok(())
}

fn streams_over_a_good_link_are_whole_and_pass_whole() -> TrialOutcome {
    let lab = Lab::symmetric(&delayed(Duration::from_micros(500)))?;
    exchange(&lab, v4, 50_000_000)?;
    exchange(&lab, v6, 50_000_000)?;
    let is_whole = |report: &LinkReport| {
        report.directions.iter().all(|one| one.statistics.delivered_packets == one.statistics.offered_packets)
    };
    // The last acknowledgement may still be in transit; the assertions below judge what remains after a second.
    let mut report = lab.report()?;
    for _ in 0..100 {
        if is_whole(&report) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        report = lab.report()?;
    }
    ensure_no_refusals(&report)?;
    for DirectionReport { statistics, lateness, .. } in &report.directions {
        // Wire packets are counted, although few are seen. Acknowledgements may all travel with data.
        ensure!(statistics.offered_packets > 100_000_000 / 1_448, "{statistics:?}");
        ensure!(statistics.delivered_packets == statistics.offered_packets, "{statistics:?}");
        ensure!(lateness.count == statistics.delivered_packets, "{lateness:?} {statistics:?}");
    }
    report.directions.iter().try_for_each(|direction| sizes_add_up(direction, ETHERNET_HEADER_BYTES, 1_500))
}

/// Every packet has a time of its own here, and is counted by itself, whether or not it leaves with others.
fn streams_over_a_shaped_link_are_whole() -> TrialOutcome {
    let rate = RateModel::Constant(1_000_000_000);
    let lab = Lab::symmetric(&LinkModel { rate, ..delayed(Duration::from_millis(1)) })?;
    exchange(&lab, v4, 20_000_000)?;
    exchange(&lab, v6, 20_000_000)?;
    for DirectionReport { statistics, lateness, refused_packets, .. } in &lab.report()?.directions {
        ensure!(statistics.offered_packets > 27_000, "{statistics:?}");
        ensure!(lateness.count == statistics.delivered_packets, "{lateness:?} {statistics:?}");
        ensure!(*refused_packets == 0, "{refused_packets} refused");
    }
    Ok(())
}

fn hosts_may_cut_their_packets_themselves() -> TrialOutcome {
    let lab = Lab::without_offload(&delayed(Duration::from_micros(500)))?;
    exchange(&lab, v4, 5_000_000)?;
    for DirectionReport { statistics, lateness, .. } in &lab.report()?.directions {
        ensure!(statistics.delivered_packets > 3_400, "{statistics:?}");
        ensure!(lateness.count == statistics.delivered_packets, "{lateness:?} {statistics:?}");
    }
    let report = lab.report()?;
    report.directions.iter().try_for_each(|direction| sizes_add_up(direction, ETHERNET_HEADER_BYTES, 1_500))
}

/// A GSO packet of ten datagrams (`UDP_SEGMENT`) is ten packets for the link and for the receiver.
fn datagrams_are_cut_one_by_one() -> TrialOutcome {
    for (address, loss) in [(v4 as fn(u8) -> IpAddr, 0.0), (v6, 0.0), (v4, 0.1), (v6, 0.1)] {
        let model = LinkModel { loss: LossModel::Independent(loss), ..LinkModel::default() };
        let lab = Lab::symmetric(&model)?;
        let (client, server) = lab.udp(address)?;
        server.set_read_timeout(Some(Duration::from_millis(20)))?;
        set_segment_bytes(&client, 1_000)?;
        let lot: Vec<u8> = (0..9_500_u64).map(content).collect();
        let mut arrived = 0;
        for sent in 1..=20 {
            client.send(&lot)?;
            let deadline = Instant::now() + Duration::from_secs(10);
            loop {
                let report = &lab.report()?.directions[0];
                let statistics = &report.statistics;
                let dropped: u64 = statistics.dropped_packets.values().sum();
                if arrived == statistics.delivered_packets && arrived + dropped == 10 * sent {
                    break;
                }
                ensure!(Instant::now() < deadline, "{arrived} arrived: {report:?}");
                let mut inbox = [0; 2_048];
                let Ok(length) = server.recv(&mut inbox) else { continue };
                let known = lot.chunks(1_000).any(|datagram| datagram == &inbox[..length]);
                ensure!(known, "a datagram of {length} B that was not sent");
                arrived += 1;
            }
        }
        ensure!((arrived == 200) == (loss == 0.0), "{arrived} arrived of 200 at {loss}");
        let headers = if address(1).is_ipv4() { 28 } else { 48 };
        let counted = &lab.report()?.directions[0].offered_sizes;
        let expected = [(500 + headers, 20), (1_000 + headers, 180)];
        for (bytes, count) in expected {
            ensure!(counted.get(&bytes) == Some(&count), "not {count} of {bytes} B: {counted:?}");
        }
    }
    Ok(())
}

/// Has the kernel cut what is sent on `socket` at once into datagrams of so many bytes.
fn set_segment_bytes(socket: &std::net::UdpSocket, bytes: libc::c_int) -> Result<(), Failed> {
    // SAFETY: setsockopt(2) reads the one int it is given, which lives until it returns.
    #[allow(unsafe_code, reason = "no crate of the workspace knows UDP_SEGMENT")]
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    ensure!(answer == 0, "UDP_SEGMENT: {}", std::io::Error::last_os_error());
    Ok(())
}

/// `CoDel` marks what a TCP with ECN sends; the marks change no byte of it.
fn marked_packets_keep_their_content() -> TrialOutcome {
    let lab = Lab::symmetric(&LinkModel {
        rate: RateModel::Constant(40_000_000),
        queue: QueueLimit::Packets(2_000),
        queue_discipline: Discipline::CoDel,
        queue_target: Some(Duration::from_millis(5)),
        queue_interval: Some(Duration::from_millis(20)),
        ecn: true,
        ..delayed(Duration::from_millis(2))
    })?;
    lab.set("net.ipv4.tcp_ecn", "1")?;
    for address in [v4 as fn(u8) -> IpAddr, v6] {
        exchange(&lab, address, 5_000_000)?;
    }
    for DirectionReport { statistics, .. } in &lab.report()?.directions {
        ensure!(statistics.marked_packets > 5, "{statistics:?}");
        // Bare acknowledgements are not of an ECN-capable transport, and may be dropped.
    }
    Ok(())
}
