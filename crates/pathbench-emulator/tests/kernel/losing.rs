//! Losses and other things that chance decides.

use crate::fixture::Lab;
use crate::lots::send_in_lots;
use pathbench_link::packet::DropCause;
use pathbench_link::{LinkModel, LossModel};
use pathbench_testkit::{TrialOutcome, ensure, tests};
use std::time::Duration;

tests![
    two_in_a_hundred_are_lost,
    the_same_seed_loses_the_same_packets,
    duplicates_arrive_and_corrupted_ones_do_not,
];

fn lossy(loss: f64) -> LinkModel {
    LinkModel { loss: LossModel::Independent(loss), ..LinkModel::default() }
}

/// 100,000 packets at 2 %: 2000 ± 2.576 standard deviations of 44.3 hold in 99 of 100 cases. The seed is fixed, so it
/// is always the same case.
fn two_in_a_hundred_are_lost() -> TrialOutcome {
    let lab = Lab::symmetric(&lossy(0.02))?;
    let arrived = send_in_lots(&lab, 100_000, 64)?;
    let report = &lab.report()?.directions[0];
    let lost = report.statistics.dropped_packets.get(&DropCause::Loss).copied().unwrap_or_default();
    ensure!((1_886..=2_114).contains(&lost), "{lost} lost");
    ensure!(arrived.len() as u64 == 100_000 - lost, "{} arrived, {lost} lost", arrived.len());
    ensure!(report.refused_packets == 0 && report.overrun_packets == 0, "{report:?}");
    Ok(())
}

fn the_same_seed_loses_the_same_packets() -> TrialOutcome {
    let models = || [lossy(0.1), lossy(0.1)];
    let runs = [7, 7, 8].map(|seed| {
        let lab = Lab::new(models(), [seed, 1], None)?;
        let arrived = send_in_lots(&lab, 5_000, 64)?;
        lab.plane.restart(lab.link, [seed, 1])?;
        let again = send_in_lots(&lab, 5_000, 64)?;
        ensure!(arrived == again, "a restart made a difference");
        Ok(arrived)
    });
    let [first, second, other] = runs;
    let (first, second, other) = (first?, second?, other?);
    ensure!(first == second, "the same seed made different decisions");
    ensure!(first != other, "another seed made the same decisions");
    Ok(())
}

/// The receiving kernel discards what a bit was flipped in: all of it is under some checksum.
fn duplicates_arrive_and_corrupted_ones_do_not() -> TrialOutcome {
    let model = LinkModel { duplicate: 0.1, corrupt: 0.05, ..LinkModel::default() };
    let lab = Lab::symmetric(&model)?;
    let arrived = send_in_lots(&lab, 20_000, 200)?;
    std::thread::sleep(Duration::from_millis(1));
    let statistics = &lab.report()?.directions[0].statistics;
    let (twice, corrupted) = (statistics.duplicated_packets, statistics.corrupted_packets);
    ensure!((1_800..2_200).contains(&twice) && (850..1_150).contains(&corrupted), "{statistics:?}");
    let mut seen = vec![0_u32; 20_000];
    for number in &arrived {
        let Some(count) = seen.get_mut(*number as usize) else {
            return Err(format!("number {number} was never sent").into());
        };
        *count += 1;
    }
    let times = |count: u32| seen.iter().filter(|&&seen| seen == count).count() as u64;
    ensure!(times(0) == corrupted, "{} missing, {corrupted} corrupted", times(0));
    ensure!(times(2) <= twice && times(2) > twice * 8 / 10, "{} twice of {twice}", times(2));
    ensure!(times(0) + times(1) + times(2) == 20_000, "something came three times");
    Ok(())
}
