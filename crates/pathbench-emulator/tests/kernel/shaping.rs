//! Rates.

use crate::fixture::{Lab, v4};
use libtest_mimic::Failed;
use pathbench_emulator::plane::DirectionReport;
use pathbench_link::OpportunitySchedule;
use pathbench_link::{LinkModel, RateModel};
use pathbench_record::units::QueueLimit;
use pathbench_testkit::{TrialOutcome, ensure, tests};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

tests![ten_megabits_are_ten_megabits, a_trace_delivers_its_bytes];

/// Payload of a datagram that fills the MTU.
const FULL: usize = 1_472;

/// Its queue lasts for half a second, for which the sender may have to wait for a processor.
fn shaped(rate: RateModel) -> LinkModel {
    let queue = QueueLimit::Packets(500);
    LinkModel { rate, queue, ..LinkModel::default() }
}

/// IP bytes that the far device has received, and when: the counter is read within a millisecond.
fn taken(lab: &mut Lab) -> Result<(u64, Instant), Failed> {
    loop {
        let begun = Instant::now();
        let bytes = lab.server.socket.statistics(lab.server.index)?.rx_bytes;
        if begun.elapsed() < Duration::from_millis(1) {
            return Ok((bytes, begun));
        }
    }
}

/// Sends full datagrams faster than the link for a while: bits of IP packets a second that the far device took in over
/// `time`. Neither the sender nor this reader of counters needs a processor at any given moment.
fn flood(lab: &mut Lab, time: Duration) -> Result<f64, Failed> {
    // No one reads the server's socket: its kernel drops datagrams only after the device has counted them.
    let (client, _server) = lab.udp(v4)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let datagram = [0; FULL];
            while !done.load(Ordering::Relaxed) {
                for _ in 0..8 {
                    let _ = client.send(&datagram);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let mut measure = || {
            std::thread::sleep(Duration::from_millis(700));
            let before = taken(lab)?;
            std::thread::sleep(time);
            let after = taken(lab)?;
            Ok((after.0 - before.0) as f64 * 8.0 / (after.1 - before.1).as_secs_f64())
        };
        let measured = measure();
        done.store(true, Ordering::Relaxed);
        measured
    })
}

fn print_rate(what: &str, bps: f64, report: &DirectionReport) {
    println!("{what}: {:.4} Mbit/s; lateness {:?}", bps / 1e6, report.lateness);
}

fn ten_megabits_are_ten_megabits() -> TrialOutcome {
    let mut lab = Lab::symmetric(&shaped(RateModel::Constant(10_000_000)))?;
    let time = Duration::from_secs(10);
    // A packet counts its Ethernet header, too.
    let bps = flood(&mut lab, time)? * (1_500.0 + 14.0) / 1_500.0;
    let report = &lab.report()?.directions[0];
    print_rate("10 Mbit/s", bps, report);
    // The lateness of the first and last packet does not count as an error of the rate.
    let tolerance = (report.lateness.max + Duration::from_millis(2)).as_secs_f64() / time.as_secs_f64();
    ensure!((bps / 1e7 - 1.0).abs() < 0.005 + tolerance, "{bps} bit/s");
    Ok(())
}

/// Opportunities in bursts with gaps between: 1000 in 1 s, which is 12 Mbit/s of IP packets.
fn a_trace_delivers_its_bytes() -> TrialOutcome {
    let at_ms = (0..1_000_u64).map(|n| n / 20 * 20 + 20).collect();
    let schedule = Arc::new(OpportunitySchedule { at_ms });
    let mut lab = Lab::symmetric(&shaped(RateModel::Opportunities(schedule)))?;
    let time = Duration::from_secs(5);
    let bps = flood(&mut lab, time)?;
    let report = &lab.report()?.directions[0];
    print_rate("a trace of 12 Mbit/s", bps, report);
    // It comes in lots of 20 ms, one of which may be cut off at either end.
    let tolerance = (report.lateness.max + Duration::from_millis(20)).as_secs_f64() / time.as_secs_f64();
    ensure!((bps / 12e6 - 1.0).abs() < 0.01 + tolerance, "{bps} bit/s");
    Ok(())
}
