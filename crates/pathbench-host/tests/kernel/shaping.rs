//! Rates that are kept and changed.

use crate::fixture::{Lab, MTU, Sent, sent};
use libtest_mimic::Failed;
use pathbench_host::netlink::NetlinkError;
use pathbench_host::qdisc::{QueueLimit, Shaper, ShaperError};
use pathbench_kerneltest::{Outcome, ensure, tests};
use std::time::{Duration, Instant};

tests!(
    fifty_megabits,
    a_gigabit,
    the_rate_changes_while_data_flow,
    a_full_queue_drops,
    a_shaper_takes_the_place_of_another,
    what_cannot_be_changed_is_refused,
);

/// 100 ms at the rate, at least the largest packet with segmentation offload.
fn shaper(rate_bps: u64) -> Shaper {
    Shaper::new(rate_bps, MTU, QueueLimit::Bytes((rate_bps / 80).max(100_000)))
}

const TIME: Duration = Duration::from_millis(700);

/// The shaper itself is within 1 %. The bound above is the link's; the one below has room for a machine that is
/// busy with other things.
fn keeps(rate_bps: u64, measured: Sent) -> Outcome {
    eprintln!("asked {rate_bps} bit/s, got {measured:.0?}");
    let ratio = |bps: f64| bps / rate_bps as f64;
    let kept = ratio(measured.in_all_bps) < 1.02 && ratio(measured.while_waiting_bps) > 0.85;
    ensure!(kept, "asked for {rate_bps} bit/s, got {measured:.0?}");
    Ok(())
}

fn steady(rate_bps: u64) -> Outcome {
    let mut lab = Lab::new(&[Some(shaper(rate_bps))])?;
    let port = lab.port(0, 2)?;
    let measured = lab.while_sending(0, |room| {
        std::thread::sleep(Duration::from_millis(300));
        sent(room, port, rate_bps, TIME)
    })??;
    keeps(rate_bps, measured)
}

fn fifty_megabits() -> Outcome {
    steady(50_000_000)
}

fn a_gigabit() -> Outcome {
    steady(1_000_000_000)
}

fn the_rate_changes_while_data_flow() -> Outcome {
    let mut lab = Lab::new(&[Some(shaper(20_000_000))])?;
    let port = lab.port(0, 2)?;
    let rates = lab.while_sending(0, |room| {
        std::thread::sleep(Duration::from_millis(300));
        let slow = sent(room, port, 20_000_000, TIME)?;
        let before = room.qdisc_statistics(port)?;
        room.change_rate(port, &Shaper { queue: shaper(20_000_000).queue, ..shaper(100_000_000) })?;
        let after = room.qdisc_statistics(port)?;
        ensure!(before.backlog_bytes > 0, "nothing was waiting: {before:?}");
        ensure!(after.bytes >= before.bytes, "the counters started again: {before:?} {after:?}");
        // What left between the two readings and what was waiting: nothing is missing.
        let (total_before, total_after) =
            (before.bytes + u64::from(before.backlog_bytes), after.bytes + u64::from(after.backlog_bytes));
        ensure!(total_after >= total_before, "what was waiting is gone: {before:?} {after:?}");
        std::thread::sleep(Duration::from_millis(100));
        let fast = sent(room, port, 100_000_000, TIME)?;
        room.change_rate(port, &shaper(20_000_000))?;
        std::thread::sleep(Duration::from_millis(100));
        let slow_again = sent(room, port, 20_000_000, TIME)?;
        Ok::<_, Failed>([(20_000_000, slow), (100_000_000, fast), (20_000_000, slow_again)])
    })??;
    rates.into_iter().try_for_each(|(asked, measured)| keeps(asked, measured))
}

fn a_full_queue_drops() -> Outcome {
    use crate::fixture::v4;
    use std::net::UdpSocket;
    let shaper = Shaper::new(1_000_000, MTU, QueueLimit::Bytes(20_000));
    let mut lab = Lab::new(&[Some(shaper)])?;
    let port = lab.port(0, 2)?;
    let socket = lab.client.namespace.run_in(|| UdpSocket::bind((v4(0, 1), 0)))??;
    for _ in 0..100 {
        socket.send_to(&[0; 1400], (v4(0, 2), 9))?;
    }
    std::thread::sleep(Duration::from_millis(20));
    let statistics = lab.room.socket.qdisc_statistics(port)?;
    // 3 kB pass at once, 20 kB may wait: of 100 frames of 1442 bytes about 84 find no room.
    ensure!((70..95).contains(&statistics.drops), "{statistics:?}");
    ensure!(statistics.backlog_bytes <= 20_000 && statistics.backlog_packets > 0, "{statistics:?}");
    ensure!(statistics.overlimits > 0, "{statistics:?}");
    Ok(())
}

fn a_shaper_takes_the_place_of_another() -> Outcome {
    let mut lab = Lab::new(&[Some(shaper(10_000_000))])?;
    let port = lab.port(0, 2)?;
    lab.room
        .socket
        .install_shaper(port, &Shaper { queue: QueueLimit::Packets(50), ..shaper(100_000_000) })?;
    let measured = lab.while_sending(0, |room| -> Result<f64, Failed> {
        std::thread::sleep(Duration::from_millis(200));
        // 50 packets are too few to be always waiting: only what passed in all can be judged. The clock is read
        // outside the counters, so a reader that has to wait for a processor finds too little, never too much.
        let begun = Instant::now();
        let before = room.qdisc_statistics(port)?;
        std::thread::sleep(TIME);
        let bytes = room.qdisc_statistics(port)?.bytes - before.bytes;
        Ok(bytes as f64 * 8.0 / begun.elapsed().as_secs_f64())
    })??;
    ensure!((11e6..102e6).contains(&measured), "asked for 100 Mbit/s in place of 10, got {measured:.0}");
    lab.room.socket.remove_shaper(port)?;
    let again = lab.room.socket.remove_shaper(port).err();
    ensure!(again.as_ref().is_some_and(NetlinkError::is_absent), "{again:?}");
    Ok(())
}

fn what_cannot_be_changed_is_refused() -> Outcome {
    let mut lab = Lab::new(&[Some(shaper(10_000_000)), None])?;
    let (shaped, plain) = (lab.port(0, 2)?, lab.port(1, 2)?);
    let other_kind = Shaper { queue: QueueLimit::Packets(50), ..shaper(10_000_000) };
    let result = lab.room.socket.change_rate(shaped, &other_kind);
    ensure!(matches!(&result, Err(ShaperError::Netlink(error)) if error.errno().is_some()), "{result:?}");
    let result = lab.room.socket.change_rate(plain, &shaper(10_000_000));
    ensure!(matches!(&result, Err(ShaperError::Netlink(error)) if error.is_absent()), "{result:?}");
    Ok(())
}
