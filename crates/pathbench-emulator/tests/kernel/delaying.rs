//! Delays.

use crate::fixture::{Lab, delayed, v4};
use libtest_mimic::Failed;
use pathbench_emulator::plane::Lateness;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_testkit::{MonotonicClock, TrialOutcome, ensure, tests};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

tests![
    the_kernel_answers_after_twice_the_delay,
    without_delay_packets_pass_at_once,
    no_packet_is_early_when_the_processor_is_taken_away
];

const PACKETS: u32 = 4_000;

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
fn the_kernel_answers_after_twice_the_delay() -> TrialOutcome {
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

fn without_delay_packets_pass_at_once() -> TrialOutcome {
    let lab = Lab::symmetric(&delayed(Duration::ZERO))?;
    let times = pings(&lab, 1_000)?;
    let lateness = lab.report()?.directions.map(|direction| direction.lateness);
    print("no delay", &times, &lateness);
    ensure!(times[0] < Duration::from_millis(1), "even the fastest takes {:?}", times[0]);
    ensure!(lateness[0].p50 < Duration::from_micros(500), "{lateness:?}");
    Ok(())
}

/// The processor is taken from the thread for 500 µs after every fifth look at the clock.
#[derive(Debug, Default)]
struct InterruptedClock {
    looks: AtomicU32,
}

impl Clock for InterruptedClock {
    fn now(&self) -> Timestamp {
        let now = MonotonicClock.now();
        if self.looks.fetch_add(1, Ordering::Relaxed).is_multiple_of(5) {
            std::thread::sleep(Duration::from_micros(500));
        }
        now
    }

    fn sleep_until(&self, deadline: Timestamp) {
        MonotonicClock.sleep_until(deadline);
    }
}

/// Regression: a packet that arrived after the look at the clock had that time as its arrival, and left 0.1 ms early.
fn no_packet_is_early_when_the_processor_is_taken_away() -> TrialOutcome {
    let delay = Duration::from_millis(10);
    let models = [delayed(delay), delayed(delay)];
    let lab = Lab::make(Arc::new(InterruptedClock::default()), models, [1, 2], None, true)?;
    let (client, server) = lab.udp(v4)?;
    server.set_read_timeout(Some(Duration::from_secs(2)))?;
    // A socket's buffer may overflow on a busy machine: a packet is known by its number.
    let receiver = std::thread::spawn(move || {
        let mut number = [0; 4];
        let receive = || server.recv(&mut number).ok().map(|_| (u32::from_be_bytes(number), Instant::now()));
        std::iter::from_fn(receive).take(PACKETS as usize).collect::<Vec<_>>()
    });
    let mut sent = Vec::new();
    for number in 0..PACKETS {
        // Up to 0.6 ms: packets meet every step of the thread.
        std::thread::sleep(Duration::from_micros(u64::from(number) * 137 % 600));
        sent.push(Instant::now());
        client.send(&number.to_be_bytes())?;
    }
    let arrived = receiver.join().map_err(|_| "the receiver panicked")?;
    ensure!(arrived.len() > PACKETS as usize / 4, "{} of {PACKETS} packets arrived", arrived.len());
    let delays = arrived.iter().map(|(number, at)| at.duration_since(sent[*number as usize]));
    let least = delays.min().ok_or("no packet")?;
    println!("least delay: {least:?}");
    ensure!(least >= delay, "{least:?} is earlier than {delay:?}");
    Ok(())
}
