//! A walk out of reach of `wlan`, with `lte` as the backup path, over emulated links: twelve repetitions.

use super::suite::{Outage, add_messages, of_transport};
use super::{event, finish_run, link, nothing};
use pathbench_record::direction::LinkDirection;
use pathbench_record::document::{
    EmulatedDirection, EmulationRecord, HandoverReason, HandoverRecord, LatenessRecord, LinkSample,
    OneWayDelay, ProbeRecord, RunRecord,
};
use pathbench_record::statistics::SplitMix64;
use pathbench_record::summary::{measure_links, summarise_mobility};
use pathbench_report::ResultSet;
use serde_json::json;

/// Interactive traffic over tcp, mptcp and mpquic while `wlan` fades from 3 s on.
pub(crate) fn walk() -> ResultSet {
    let mut set = nothing("walk-away", "the Wi-Fi fades as the user walks away; LTE is the backup path");
    set.document.links = vec![link("wlan", 40_000_000), link("lte", 20_000_000)];
    for (index, link) in set.document.links.iter_mut().enumerate() {
        "emulated".clone_into(&mut link.engine);
        let asked = &mut link.requested;
        for direction in [&mut asked.forward, &mut asked.reverse] {
            (direction.delay_ms, direction.loss) = (Some(10.0), (index == 0).then_some(0.01));
        }
    }
    // LTE has a higher rate in the download direction.
    if let [_, lte] = set.document.links.as_mut_slice() {
        (lte.requested.reverse.rate_bps, lte.requested.reverse.queue_bytes) =
            (Some(50_000_000), Some(625_000));
        if let Some(measured) = &mut lte.measured {
            measured.reverse_bps = Some(49_800_000);
        }
    }
    for repetition in 1..=12_u32 {
        for label in ["tcp@wlan", "mptcp", "mpquic"] {
            let id = format!("{}-r{repetition}", label.replace('@', "-"));
            let mut run = of_transport(&id, label, repetition, "interactive");
            let mut random = SplitMix64::new(u64::from(repetition) * 977 + label.len() as u64);
            let late = 100.0 * 2f64.powf(random.draw_below(600) as f64 / 100.0);
            let until_ms = if label == "tcp@wlan" { 14_000.0 } else { 6000.0 + late };
            let outage = Some(Outage { from_ms: 6000.0, until_ms });
            set.lines.held.events.push(event(&id, 3000.0, "fade", "wlan"));
            add_messages(&mut set, &mut run, 20.0, outage);
            let asked = json!({ "duration_ms": 10_000.0, "interval_ms": 100.0 });
            run.parameters.asked = asked.as_object().cloned().unwrap_or_default();
            run.handover = (label != "tcp@wlan" && repetition != 5).then(|| handover(&mut random, until_ms));
            if label == "mptcp" && repetition == 1 {
                run.probes = probes();
            }
            add_links(&mut set, &id);
            finish_run(&mut set, run);
            emulate(&mut set);
        }
    }
    let (runs, links) = (&set.document.runs, &mut set.document.links);
    measure_links(links, runs);
    set.document.summary.mobility = summarise_mobility(&set.document.runs);
    set
}

fn handover(random: &mut SplitMix64, until_ms: f64) -> HandoverRecord {
    let reason = match random.draw_below(10) {
        0 => HandoverReason::RttThreshold,
        1..=6 => HandoverReason::UnderRto,
        7 => HandoverReason::RtoThreshold,
        _ => HandoverReason::Other,
    };
    let received = random.draw_below(4200) as f64 - 600.0;
    HandoverRecord {
        from: "wlan".to_owned(),
        to: "lte".to_owned(),
        began_ms: until_ms - 60.0,
        duration_sent_ms: Some(received.max(0.0) + random.draw_below(1500) as f64),
        duration_received_ms: Some(received),
        reason,
        srtt_ms: if reason == HandoverReason::RttThreshold { 812.0 } else { 48.0 },
        rto_ms: if reason == HandoverReason::RtoThreshold { 1664.0 } else { 416.0 },
        backoff: u32::from(reason == HandoverReason::UnderRto),
        remark: Some("`wlan` began to fade 3120 ms before".to_owned()),
    }
}

fn probes() -> Vec<ProbeRecord> {
    vec![ProbeRecord {
        path: "wlan".to_owned(),
        sent: 100,
        answered: 62,
        p50_ms: Some(21.0),
        max_ms: Some(840.5),
        longest_silence_ms: Some(3800.0),
    }]
}

/// Samples of both links every 100 ms: from 3 s to 8 s the rate of `wlan` decreases and its loss increases.
fn add_links(set: &mut ResultSet, run: &str) {
    let mut random = SplitMix64::new(run.len() as u64);
    for (name, full) in [("wlan", 40e6), ("lte", 20e6)] {
        for direction in LinkDirection::BOTH {
            let (mut delivered, mut dropped) = (0.0_f64, 0_u64);
            let mut below = |bound: usize| random.draw_below(bound) as u64;
            for step in 0..=100_u32 {
                let t_ms = f64::from(step) * 100.0;
                let faded = if name == "wlan" { ((t_ms - 3000.0) / 5000.0).clamp(0.0, 1.0) } else { 0.0 };
                let used = (name == "wlan") == (t_ms < 6500.0);
                let load = if used { 0.5 + below(100) as f64 / 100.0 } else { 0.02 };
                delivered += load * 1e6 * (1.0 - faded) / 8.0 * 0.1;
                dropped += if faded > 0.3 && used { below(3) } else { 0 };
                let queue = if faded > 0.5 && used { below(24) } else { below(3) };
                set.lines.held.links.push(LinkSample {
                    run: run.to_owned(),
                    t_ms,
                    link: name.to_owned(),
                    direction,
                    queue_bytes: queue * 1514,
                    queue_packets: queue,
                    offered_bytes: delivered as u64 + dropped * 1514,
                    delivered_bytes: delivered as u64,
                    dropped_packets: dropped,
                    rate_bps: Some((full * (1.0 - 0.95 * faded)) as u64),
                    loss: (name == "wlan").then_some(0.01 + 0.39 * faded),
                    delay_ms: Some(10.0),
                });
            }
        }
    }
}

/// Adds the emulator's records of the last run's links.
fn emulate(set: &mut ResultSet) {
    let Some(run) = set.document.runs.last_mut() else { return };
    for link in &mut run.links {
        let lossy = u64::from(link.name == "wlan");
        let direction = |drops: u64| EmulatedDirection {
            offered_packets: 4000 + drops,
            offered_bytes: 900_000,
            delivered_packets: 4000,
            delivered_bytes: 880_000,
            dropped_packets: if drops > 0 { [("loss".to_owned(), drops)].into() } else { [].into() },
            arq_retransmissions: drops * 3,
            largest_queue_bytes: 36_000,
            lateness_ms: LatenessRecord { p50: 0.012, p90: 0.05, p99: 0.21, p999: 0.8, max: 1.5 },
            ..EmulatedDirection::default()
        };
        link.emulation =
            Some(EmulationRecord { forward: direction(61 * lossy), reverse: direction(40 * lossy) });
        let delay = OneWayDelay { packets: 99, min_ms: 10.01, p50_ms: 10.2, p95_ms: 11.5, max_ms: 14.0 };
        let measured = link.measured.get_or_insert_default();
        measured.forward_delay = Some(delay);
        measured.reverse_delay = Some(delay);
        measured.forward_loss = Some(if lossy > 0 { 0.011 } else { 0.0 });
        measured.reverse_loss = Some(if lossy > 0 { 0.009 } else { 0.0 });
        (measured.rtt_ms, measured.min_rtt_ms) = (20.4, 20.1);
    }
}
