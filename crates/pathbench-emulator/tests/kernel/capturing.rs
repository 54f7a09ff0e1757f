//! Captures.

use crate::fixture::{Lab, delayed};
use crate::lots::send_in_lots;
use libtest_mimic::Failed;
use pathbench_link::{LinkModel, LossModel};
use pathbench_testkit::{TrialOutcome, ensure, tests};
use std::path::PathBuf;
use std::time::Duration;

tests![a_capture_records_every_fate, a_capture_that_cannot_be_made_is_an_error];

/// A file of this test's own.
fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("pathbench-{}-{name}.pcapng", std::process::id()))
}

/// Enhanced packet blocks: interface, time, packet and comment.
struct Recorded {
    interface: u32,
    at_ns: u64,
    ip: Vec<u8>,
    comment: String,
}

fn recorded(bytes: &[u8]) -> Result<Vec<Recorded>, Failed> {
    let number = |at: usize| -> Result<usize, Failed> {
        let word = bytes.get(at..at + 4).ok_or("the file ends within a block")?;
        Ok(u32::from_le_bytes([word[0], word[1], word[2], word[3]]) as usize)
    };
    let (mut at, mut packets) = (0, Vec::new());
    while at < bytes.len() {
        let (kind, length) = (number(at)?, number(at + 4)?);
        ensure!(length >= 12 && number(at + length - 4)? == length, "a block's lengths differ");
        if kind == 6 {
            let ip_bytes = number(at + 20)?;
            let option = at + 28 + ip_bytes.next_multiple_of(4);
            let comment_bytes = number(option)? >> 16;
            packets.push(Recorded {
                interface: number(at + 8)? as u32,
                at_ns: ((number(at + 12)? as u64) << 32) | number(at + 16)? as u64,
                ip: bytes[at + 28..at + 28 + ip_bytes].to_vec(),
                comment: String::from_utf8_lossy(&bytes[option + 4..option + 4 + comment_bytes]).into_owned(),
            });
        }
        at += length;
    }
    Ok(packets)
}

fn a_capture_records_every_fate() -> TrialOutcome {
    let path = file("fates");
    let model = LinkModel { loss: LossModel::Independent(0.1), ..delayed(Duration::from_millis(3)) };
    let lab = Lab::new([model.clone(), model], [1, 2], Some(path.clone()))?;
    let arrived = send_in_lots(&lab, 1_000, 100)?;
    let report = lab.report()?;
    drop(lab);
    let bytes = std::fs::read(&path)?;
    std::fs::remove_file(&path)?;
    let packets = recorded(&bytes)?;
    ensure!(report.capture_error.is_none(), "{report:?}");
    ensure!(packets.len() == 1_000 && packets.iter().all(|one| one.interface == 0), "{}", packets.len());
    ensure!(packets.is_sorted_by_key(|one| one.at_ns), "not in the order of entry");
    let mut delivered = Vec::new();
    for packet in &packets {
        ensure!(packet.ip.len() == 128, "a packet of {} B", packet.ip.len());
        let number = u32::from_be_bytes([packet.ip[28], packet.ip[29], packet.ip[30], packet.ip[31]]);
        if packet.comment.starts_with("delivered after ") && packet.comment.ends_with("(due 3.000)") {
            delivered.push(number);
        } else {
            ensure!(packet.comment.starts_with("dropped: loss"), "{}", packet.comment);
        }
    }
    ensure!(delivered == arrived, "{} delivered by the capture, {} arrived", delivered.len(), arrived.len());
    Ok(())
}

fn a_capture_that_cannot_be_made_is_an_error() -> TrialOutcome {
    let path = PathBuf::from("/nonexistent/link.pcapng");
    let model = delayed(Duration::ZERO);
    let error = Lab::new([model.clone(), model], [1, 2], Some(path)).err().map(|error| format!("{error:?}"));
    let text = error.unwrap_or_default();
    ensure!(text.contains("/nonexistent/link.pcapng"), "{text}");
    Ok(())
}
