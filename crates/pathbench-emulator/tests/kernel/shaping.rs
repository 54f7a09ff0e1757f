//! Rates.

use crate::fixture::{Lab, v4};
use crate::{Outcome, ensure, tests};
use libtest_mimic::Failed;
use pathbench_emulator::model::{PipeModel, QueueLimit, QueueModel, RateModel};
use pathbench_emulator::plane::DirectionReport;
use pathbench_emulator::schedule::OpportunitySchedule;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

tests![ten_megabits_are_ten_megabits, a_trace_delivers_its_bytes];

/// Payload of a datagram that fills the MTU.
const FULL: usize = 1_472;

/// Its queue lasts for half a second, for which the sender may have to wait for a processor.
fn shaped(rate: RateModel) -> PipeModel {
    let queue = QueueModel { limit: QueueLimit::Packets(500), ..QueueModel::default() };
    PipeModel { rate, queue, ..PipeModel::default() }
}

/// Sends full datagrams faster than the link for `time`: bytes of payload that arrived, from the first to the last
/// arrival.
fn flood(lab: &Lab, time: Duration) -> Result<(u64, Duration), Failed> {
    let (client, server) = lab.udp(v4)?;
    server.set_read_timeout(Some(Duration::from_millis(500)))?;
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
        let mut inbox = [0; 2_048];
        server.recv(&mut inbox)?;
        let begun = Instant::now();
        let (mut bytes, mut last) = (0, begun);
        while last - begun < time {
            bytes += server.recv(&mut inbox)? as u64;
            last = Instant::now();
        }
        done.store(true, Ordering::Relaxed);
        Ok((bytes, last - begun))
    })
}

fn say(what: &str, bps: f64, report: &DirectionReport) {
    println!("{what}: {:.4} Mbit/s; lateness {:?}", bps / 1e6, report.lateness);
}

fn ten_megabits_are_ten_megabits() -> Outcome {
    let lab = Lab::symmetric(&shaped(RateModel::Constant(10_000_000)))?;
    let (bytes, time) = flood(&lab, Duration::from_secs(10))?;
    // A datagram counts its headers and the Ethernet header, too.
    let bps = bytes as f64 / FULL as f64 * (1_500.0 + 14.0) * 8.0 / time.as_secs_f64();
    let report = &lab.report()?.directions[0];
    say("10 Mbit/s", bps, report);
    // How late the first and the last are is no matter of the rate.
    let room = report.lateness.max.as_secs_f64() / time.as_secs_f64();
    ensure!((bps / 1e7 - 1.0).abs() < 0.005 + room, "{bps} bit/s");
    Ok(())
}

/// Opportunities in bursts with gaps between: 1000 in 1 s, which is 12 Mbit/s of IP packets.
fn a_trace_delivers_its_bytes() -> Outcome {
    let at_ms = (0..1_000_u64).map(|n| n / 20 * 20 + 20).collect();
    let schedule = Arc::new(OpportunitySchedule { at_ms });
    let lab = Lab::symmetric(&shaped(RateModel::Opportunities(schedule)))?;
    let (bytes, time) = flood(&lab, Duration::from_secs(5))?;
    let bps = bytes as f64 / FULL as f64 * 1_500.0 * 8.0 / time.as_secs_f64();
    let report = &lab.report()?.directions[0];
    say("a trace of 12 Mbit/s", bps, report);
    // It comes in lots of 20 ms, one of which may be cut off at either end.
    let room = (report.lateness.max.as_secs_f64() + 0.02) / time.as_secs_f64();
    ensure!((bps / 12e6 - 1.0).abs() < 0.01 + room, "{bps} bit/s");
    Ok(())
}
