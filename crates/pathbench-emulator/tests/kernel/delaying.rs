//! Delays.

use crate::fixture::{Lab, delayed, v4};
use libtest_mimic::Failed;
use pathbench_emulator::plane::Lateness;
use pathbench_kerneltest::{Outcome, ensure, tests};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

tests![the_kernel_answers_after_twice_the_delay, without_delay_packets_pass_at_once];

/// Round-trip times of ICMP echo requests, which the far kernel answers by itself, sorted.
fn pings(lab: &Lab, count: u16) -> Result<Vec<Duration>, Failed> {
    let socket =
        lab.client.namespace.run_in(|| Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)))??;
    socket.connect(&SockAddr::from(SocketAddr::new(v4(2), 0)))?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut times = Vec::new();
    for number in 0..count {
        let [high, low] = number.to_be_bytes();
        // Echo request; the checksum covers two words besides its own.
        let sum = !(0x0800_u16 + number);
        let [sum_high, sum_low] = sum.to_be_bytes();
        let begun = Instant::now();
        socket.send(&[8, 0, sum_high, sum_low, 0, 0, high, low])?;
        let mut answer = [0; 128];
        loop {
            let length = (&socket).read(&mut answer)?;
            // Behind the IPv4 header: an echo reply with the same number.
            if length >= 28 && answer[20] == 0 && answer[26..28] == [high, low] {
                break;
            }
        }
        times.push(begun.elapsed());
    }
    times.sort();
    Ok(times)
}

fn print(what: &str, times: &[Duration], lateness: &[Lateness; 2]) {
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("{what}: RTT min {:?} p50 {:?} p99 {:?} max {:?}", at(0.0), at(0.5), at(0.99), at(1.0));
    println!("  lateness of the packets: {lateness:?}");
}

/// Never earlier than the model. The excess depends on the machine: the test bounds the fastest packet, and for the
/// median the excess beyond the data plane's lateness.
fn the_kernel_answers_after_twice_the_delay() -> Outcome {
    for delay_ms in [1, 20, 100] {
        let delay = Duration::from_millis(delay_ms);
        let lab = Lab::symmetric(&delayed(delay))?;
        let count = (2_000 / delay_ms).clamp(10, 200) as u16;
        let times = pings(&lab, count)?;
        let lateness = lab.report()?.directions.map(|direction| direction.lateness);
        print(&format!("{delay:?} per direction"), &times, &lateness);
        ensure!(lateness.iter().all(|one| one.count == u64::from(count)), "{lateness:?}");
        ensure!(times[0] >= delay * 2, "{:?} is earlier than {:?}", times[0], delay * 2);
        let fastest = times[0].saturating_sub(delay * 2);
        ensure!(fastest < Duration::from_millis(1), "even the fastest is {fastest:?} late");
        // The medians of both directions need not fall on one packet, and lateness excludes the path to the application.
        let median = times[times.len() / 2].saturating_sub(delay * 2);
        let explained = (lateness[0].p90 + lateness[1].p90) + Duration::from_millis(4);
        ensure!(median < explained, "half are {median:?} late, of which {explained:?} is explained");
    }
    Ok(())
}

fn without_delay_packets_pass_at_once() -> Outcome {
    let lab = Lab::symmetric(&delayed(Duration::ZERO))?;
    let times = pings(&lab, 1_000)?;
    let lateness = lab.report()?.directions.map(|direction| direction.lateness);
    print("no delay", &times, &lateness);
    ensure!(times[0] < Duration::from_millis(1), "even the fastest takes {:?}", times[0]);
    ensure!(lateness[0].p50 < Duration::from_micros(500), "{lateness:?}");
    Ok(())
}
