//! Numbered datagrams whose fates are all known.

use crate::fixture::{Lab, v4};
use libtest_mimic::Failed;
use pathbench_testkit::ensure;
use std::time::{Duration, Instant};

/// Sends numbered datagrams of `bytes` in small lots and waits for each lot's fate, so that no socket overflows.
/// Returns the numbers that arrived, in the order of arrival.
pub(crate) fn send_in_lots(lab: &Lab, count: u32, bytes: usize) -> Result<Vec<u32>, Failed> {
    const LOT: u32 = 50;
    let (client, server) = lab.udp(v4)?;
    server.set_nonblocking(true)?;
    let before = lab.report()?.directions[0].statistics.clone();
    let mut datagram = vec![0; bytes.max(4)];
    let mut arrived = Vec::new();
    for first in (0..count).step_by(LOT as usize) {
        let sent = (first + LOT).min(count);
        for number in first..sent {
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            client.send(&datagram)?;
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let now = &lab.report()?.directions[0].statistics;
            let dropped: u64 = now.dropped_packets.values().sum();
            let settled = now.offered_packets == before.offered_packets + u64::from(sent)
                && now.delivered_packets + dropped == now.offered_packets;
            let mut inbox = [0; 2_048];
            while let Ok(length) = server.recv(&mut inbox) {
                ensure!(length == datagram.len(), "a datagram of {length} B");
                arrived.push(u32::from_be_bytes([inbox[0], inbox[1], inbox[2], inbox[3]]));
            }
            if settled {
                break;
            }
            ensure!(Instant::now() < deadline, "packets are stuck: {now:?}");
        }
    }
    Ok(arrived)
}
