//! Constant and changing rates.

use crate::fixture::{Lab, MTU, Sent, sent};
use libtest_mimic::Failed;
use pathbench_host::netlink::NetlinkError;
use pathbench_host::qdisc::{Shaper, ShaperError};
use pathbench_host::shaping::Shaping;
use pathbench_testkit::{TrialOutcome, ensure, tests};
use std::time::{Duration, Instant};

tests!(
    fifty_megabits,
    a_gigabit,
    the_rate_changes_during_a_transfer,
    a_full_queue_drops,
    a_shaper_replaces_another,
    a_shaper_is_listed_with_its_rate,
    unsupported_changes_are_rejected,
);

/// Queue of 100 ms at the rate, at least the largest GSO packet.
fn shaper(rate_bps: u64) -> Shaper {
    Shaper::new(rate_bps, MTU, (rate_bps / 80).max(100_000))
}

const TIME: Duration = Duration::from_millis(700);

/// The shaper's rate is within 1 %. The upper bound is the link's rate; the lower has a margin for a busy machine.
fn keeps(rate_bps: u64, measured: Sent) -> TrialOutcome {
    eprintln!("asked {rate_bps} bit/s, got {measured:.0?}");
    let ratio = |bps: f64| bps / rate_bps as f64;
    let kept = ratio(measured.in_all_bps) < 1.02 && ratio(measured.while_waiting_bps) > 0.85;
    ensure!(kept, "asked for {rate_bps} bit/s, got {measured:.0?}");
    Ok(())
}

fn steady(rate_bps: u64) -> TrialOutcome {
    let mut lab = Lab::new(&[Some(shaper(rate_bps))])?;
    let port = lab.port(0, 2)?;
    let measured = lab.while_sending(0, |socket| {
        std::thread::sleep(Duration::from_millis(300));
        sent(socket, port, rate_bps, TIME)
    })??;
    keeps(rate_bps, measured)
}

fn fifty_megabits() -> TrialOutcome {
    steady(50_000_000)
}

fn a_gigabit() -> TrialOutcome {
    steady(1_000_000_000)
}

fn the_rate_changes_during_a_transfer() -> TrialOutcome {
    let mut lab = Lab::new(&[Some(shaper(20_000_000))])?;
    let port = lab.port(0, 2)?;
    let rates = lab.while_sending(0, |socket| {
        std::thread::sleep(Duration::from_millis(300));
        let slow = sent(socket, port, 20_000_000, TIME)?;
        let before = socket.qdisc_statistics(port)?;
        socket.change_rate(
            port,
            &Shaper { queue_bytes: shaper(20_000_000).queue_bytes, ..shaper(100_000_000) },
        )?;
        let after = socket.qdisc_statistics(port)?;
        ensure!(before.backlog_bytes > 0, "nothing was waiting: {before:?}");
        ensure!(after.bytes >= before.bytes, "the counters started again: {before:?} {after:?}");
        // Bytes sent between the reads plus queued bytes: no byte is missing.
        let (total_before, total_after) =
            (before.bytes + u64::from(before.backlog_bytes), after.bytes + u64::from(after.backlog_bytes));
        ensure!(total_after >= total_before, "queued bytes are missing: {before:?} {after:?}");
        std::thread::sleep(Duration::from_millis(100));
        let fast = sent(socket, port, 100_000_000, TIME)?;
        socket.change_rate(port, &shaper(20_000_000))?;
        std::thread::sleep(Duration::from_millis(100));
        let slow_again = sent(socket, port, 20_000_000, TIME)?;
        Ok::<_, Failed>([(20_000_000, slow), (100_000_000, fast), (20_000_000, slow_again)])
    })??;
    rates.into_iter().try_for_each(|(asked, measured)| keeps(asked, measured))
}

fn a_full_queue_drops() -> TrialOutcome {
    use crate::fixture::v4;
    use std::net::UdpSocket;
    let shaper = Shaper::new(1_000_000, MTU, 20_000);
    let mut lab = Lab::new(&[Some(shaper)])?;
    let port = lab.port(0, 2)?;
    let socket = lab.client.namespace.run_in(|| UdpSocket::bind((v4(0, 1), 0)))??;
    for _ in 0..100 {
        socket.send_to(&[0; 1400], (v4(0, 2), 9))?;
    }
    std::thread::sleep(Duration::from_millis(20));
    let statistics = lab.fabric.socket.qdisc_statistics(port)?;
    // 3 kB pass at once, 20 kB are queued: of 100 frames of 1442 bytes, about 84 are dropped.
    ensure!((70..95).contains(&statistics.drops), "{statistics:?}");
    ensure!(statistics.backlog_bytes <= 20_000 && statistics.backlog_packets > 0, "{statistics:?}");
    ensure!(statistics.overlimits > 0, "{statistics:?}");
    Ok(())
}

fn a_shaper_replaces_another() -> TrialOutcome {
    let mut lab = Lab::new(&[Some(shaper(10_000_000))])?;
    let port = lab.port(0, 2)?;
    lab.fabric.socket.install_shaper(port, &Shaper { queue_bytes: 75_000, ..shaper(100_000_000) })?;
    let measured = lab.while_sending(0, |socket| -> Result<f64, Failed> {
        std::thread::sleep(Duration::from_millis(200));
        // 75 kB do not keep the link busy, so only the total is meaningful. The clock is read before and after the
        // counters: after a delayed read, the measured rate is too low, never too high.
        let begun = Instant::now();
        let before = socket.qdisc_statistics(port)?;
        std::thread::sleep(TIME);
        let bytes = socket.qdisc_statistics(port)?.bytes - before.bytes;
        Ok(bytes as f64 * 8.0 / begun.elapsed().as_secs_f64())
    })??;
    ensure!((11e6..102e6).contains(&measured), "asked for 100 Mbit/s instead of 10, got {measured:.0}");
    lab.fabric.socket.remove_shaper(port)?;
    let again = lab.fabric.socket.remove_shaper(port).err();
    ensure!(again.as_ref().is_some_and(NetlinkError::is_absent), "{again:?}");
    Ok(())
}

fn a_shaper_is_listed_with_its_rate() -> TrialOutcome {
    let mut lab = Lab::new(&[Some(shaper(10_000_000)), None])?;
    let interface = lab.port(0, 2)?;
    let found = lab.fabric.socket.shaping()?;
    let expected = Shaping { interface, kind: "htb".to_owned(), rate_bps: Some(10_000_000) };
    ensure!(found.contains(&expected), "{found:?}");
    // Both ports of the shaped path, none of the other one.
    ensure!(found.len() == 2, "{found:?}");
    ensure!(lab.client.socket.shaping()?.is_empty(), "no discipline limits the client");
    Ok(())
}

fn unsupported_changes_are_rejected() -> TrialOutcome {
    let mut lab = Lab::new(&[Some(shaper(10_000_000)), None])?;
    let (shaped, plain) = (lab.port(0, 2)?, lab.port(1, 2)?);
    let no_queue = Shaper { queue_bytes: 0, ..shaper(10_000_000) };
    let result = lab.fabric.socket.change_rate(shaped, &no_queue);
    ensure!(matches!(&result, Err(ShaperError::Invalid { .. })), "{result:?}");
    let result = lab.fabric.socket.change_rate(plain, &shaper(10_000_000));
    ensure!(matches!(&result, Err(ShaperError::Netlink(error)) if error.is_absent()), "{result:?}");
    Ok(())
}
