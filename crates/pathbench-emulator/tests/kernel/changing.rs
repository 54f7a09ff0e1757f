//! Changes while packets pass, and devices that go down or are removed.

use crate::fixture::{INTERFACE, Lab, MTU, delayed, v4};
use crate::lots::send_in_lots;
use libtest_mimic::Failed;
use pathbench_emulator::plane::{PlaneError, PlaneLink};
use pathbench_host::namespace::NetNamespace;
use pathbench_host::tun::{Tun, TunError};
use pathbench_link::packet::DropCause;
use pathbench_link::pipe::PipeCondition;
use pathbench_link::{BaseDelay, LinkChange, LinkModel, LossModel, RateModel};
use pathbench_link::{ChangeSchedule, RateSchedule, Steps};
use pathbench_record::direction::LinkDirection;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_testkit::{MonotonicClock, TrialOutcome, ensure, tests};
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

tests![
    a_change_is_in_force_when_it_returns,
    a_schedule_is_followed_and_forgotten_at_a_restart,
    outages_hold_packets_and_black_holes_drop_them,
    samples_follow_the_rate,
    overruns_count_from_the_restart_on,
    a_device_that_is_down_refuses,
    a_removed_device_does_not_disturb_other_links,
    links_that_do_not_exist_are_rejected,
    a_name_that_is_taken_is_rejected,
];

/// Transit time of a datagram; `None`: longer than `patience`.
fn passage_within(
    (client, server): &(UdpSocket, UdpSocket),
    patience: Duration,
) -> Result<Option<Duration>, Failed> {
    server.set_read_timeout(Some(patience))?;
    let begun = Instant::now();
    client.send(b"passage")?;
    Ok(server.recv(&mut [0; 64]).is_ok().then(|| begun.elapsed()))
}

/// Transit time of a datagram that must arrive.
fn passage(sockets: &(UdpSocket, UdpSocket)) -> Result<Duration, Failed> {
    passage_within(sockets, Duration::from_secs(5))?.ok_or_else(|| "nothing arrived".into())
}

/// Whether a datagram does not arrive.
fn is_lost(sockets: &(UdpSocket, UdpSocket)) -> Result<bool, Failed> {
    Ok(passage_within(sockets, Duration::from_millis(300))?.is_none())
}

fn delay(milliseconds: u64) -> LinkChange {
    let base = BaseDelay::Constant(Duration::from_millis(milliseconds));
    LinkChange { delay: Some(base), ..LinkChange::default() }
}

fn a_change_is_in_force_when_it_returns() -> TrialOutcome {
    let lab = Lab::symmetric(&delayed(Duration::ZERO))?;
    let sockets = lab.udp(v4)?;
    for milliseconds in [0, 50, 10, 0] {
        lab.plane.change(lab.link, LinkDirection::Forward, delay(milliseconds))?;
        let time = passage(&sockets)?;
        ensure!(time >= Duration::from_millis(milliseconds), "{time:?} at {milliseconds} ms");
    }
    let all_lost = LinkChange { loss: Some(LossModel::Independent(1.0)), ..LinkChange::default() };
    lab.plane.change(lab.link, LinkDirection::Forward, all_lost)?;
    ensure!(is_lost(&sockets)?, "a packet came through certain loss");
    Ok(())
}

fn a_schedule_is_followed_and_forgotten_at_a_restart() -> TrialOutcome {
    let lab = Lab::symmetric(&delayed(Duration::from_millis(5)))?;
    let sockets = lab.udp(v4)?;
    let changes = vec![(Duration::ZERO, delay(40)), (Duration::from_millis(200), delay(80))];
    lab.plane.follow(lab.link, LinkDirection::Forward, ChangeSchedule { changes })?;
    let time = passage(&sockets)?;
    ensure!(time >= Duration::from_millis(40), "{time:?} at the beginning");
    std::thread::sleep(Duration::from_millis(200));
    let time = passage(&sockets)?;
    ensure!(time >= Duration::from_millis(80), "{time:?} after 200 ms");
    lab.plane.restart(lab.link, [3, 4])?;
    let report = lab.report()?;
    ensure!(report.directions[0].statistics.offered_packets == 0, "{report:?}");
    ensure!(report.directions[0].lateness.count == 0, "{report:?}");
    passage(&sockets)?;
    let delay = lab.report()?.directions[0].series.last().map(|sample| sample.delay);
    ensure!(delay == Some(Duration::from_millis(5)), "{delay:?} after the restart");
    Ok(())
}

fn outages_hold_packets_and_black_holes_drop_them() -> TrialOutcome {
    let lab = Lab::symmetric(&LinkModel { rate: RateModel::Constant(100_000_000), ..LinkModel::default() })?;
    let sockets = lab.udp(v4)?;
    lab.plane.set_condition(lab.link, PipeCondition::Outage)?;
    ensure!(is_lost(&sockets)?, "a packet came through an outage");
    lab.plane.set_condition(lab.link, PipeCondition::Carrying)?;
    ensure!(sockets.1.recv(&mut [0; 64]).is_ok(), "the held packet did not arrive after the outage");
    lab.plane.set_condition(lab.link, PipeCondition::Blackhole)?;
    ensure!(is_lost(&sockets)?, "a packet came through a black hole");
    lab.plane.set_condition(lab.link, PipeCondition::Carrying)?;
    passage(&sockets)?;
    let statistics = &lab.report()?.directions[0].statistics;
    ensure!(statistics.dropped_packets.get(&DropCause::Blackhole) == Some(&1), "{statistics:?}");
    Ok(())
}

/// A sample shows a change of rate on an idle link, too.
fn samples_follow_the_rate() -> TrialOutcome {
    let steps = vec![(Duration::ZERO, 5_000_000), (Duration::from_millis(150), 2_000_000)];
    let schedule: RateSchedule = Steps { steps, end: pathbench_link::ScheduleEnd::Hold };
    let rate = RateModel::Steps(Arc::new(schedule));
    let lab = Lab::symmetric(&LinkModel { rate, ..LinkModel::default() })?;
    send_in_lots(&lab, 10, 100)?;
    std::thread::sleep(Duration::from_millis(400));
    let series = lab.report()?.directions.map(|direction| direction.series);
    for series in &series {
        let rates: Vec<Option<u64>> = series.iter().map(|sample| sample.rate_bps).collect();
        ensure!(rates.first() == Some(&Some(5_000_000)), "{rates:?}");
        ensure!(rates.last() == Some(&Some(2_000_000)), "{rates:?}");
        ensure!(series.is_sorted_by(|a, b| a.at < b.at), "{series:?}");
    }
    ensure!(series[0].last().is_some_and(|last| last.delivered_bytes == 10 * (128 + 14)), "{:?}", series[0]);
    Ok(())
}

/// A clock that blocks its readers while a test holds its lock.
#[derive(Debug, Default)]
struct HeldClock(Mutex<()>);

impl Clock for HeldClock {
    fn now(&self) -> Timestamp {
        let _until_released = self.0.lock();
        MonotonicClock.now()
    }

    fn sleep_until(&self, deadline: Timestamp) {
        MonotonicClock.sleep_until(deadline);
    }
}

/// Regression: packets lost during calibration were counted in the run.
fn overruns_count_from_the_restart_on() -> TrialOutcome {
    let clock = Arc::new(HeldClock::default());
    let models = [LinkModel::default(), LinkModel::default()];
    let lab = Lab::make(Arc::clone(&clock) as Arc<dyn Clock>, models, [1, 2], None, true)?;
    let sockets = lab.udp(v4)?;
    let overruns = || Ok::<_, Failed>(lab.report()?.directions[0].overrun_packets);
    let overrun = || {
        let held = clock.0.lock();
        // Twice what the device holds.
        (0..20_000).try_for_each(|_| sockets.0.send(b"too many").map(drop))?;
        drop(held);
        overruns()
    };
    let first = overrun()?;
    ensure!(first > 1_000, "{first} overruns: the device held it all");
    lab.plane.restart(lab.link, [3, 4])?;
    ensure!(overruns()? == 0, "{} overruns after the restart", overruns()?);
    ensure!(overrun()? > 1_000, "{} overruns of the run itself", overruns()?);
    Ok(())
}

fn a_device_that_is_down_refuses() -> TrialOutcome {
    let mut lab = Lab::symmetric(&delayed(Duration::ZERO))?;
    let sockets = lab.udp(v4)?;
    passage(&sockets)?;
    lab.server.socket.set_down(lab.server.index)?;
    ensure!(is_lost(&sockets)?, "a device that is down took a packet");
    ensure!(lab.report()?.directions[0].refused_packets == 1, "{:?}", lab.report()?);
    lab.server.socket.set_up(lab.server.index)?;
    passage(&sockets)?;
    Ok(())
}

/// Other links go on, and the processor stays idle.
fn a_removed_device_does_not_disturb_other_links() -> TrialOutcome {
    let mut lab = Lab::symmetric(&delayed(Duration::ZERO))?;
    let others = [NetNamespace::create()?, NetNamespace::create()?];
    let ends = [Tun::create(&others[0], "pbt-1", MTU)?, Tun::create(&others[1], "pbt-1", MTU)?];
    let models = [LinkModel::default(), LinkModel::default()];
    let other =
        lab.plane.add(PlaneLink { name: "other".into(), ends, models, seeds: [1, 2], capture: None })?;
    lab.server.socket.delete_link(lab.server.index)?;
    let (client, _server) = lab.udp(v4).or_else(|_| {
        let client = lab.client.namespace.run_in(|| UdpSocket::bind((v4(1), 0)))??;
        client.connect((v4(2), 9))?;
        let server = client.try_clone()?;
        Ok::<_, Failed>((client, server))
    })?;
    for _ in 0..10 {
        client.send(b"into nothing")?;
    }
    std::thread::sleep(Duration::from_millis(20));
    let busy_before = thread_cpu_ticks()?;
    std::thread::sleep(Duration::from_millis(300));
    let busy = thread_cpu_ticks()? - busy_before;
    ensure!(busy <= 5, "the thread was busy for {busy} of 30 ticks");
    ensure!(lab.report()?.directions[0].refused_packets == 10, "{:?}", lab.report()?.directions[0]);
    lab.plane.report(other)?;
    Ok(())
}

/// Processor time of the data plane's thread, in hundredths of a second.
fn thread_cpu_ticks() -> Result<u64, Failed> {
    for task in std::fs::read_dir("/proc/self/task").or_else(|_| std::fs::read_dir("/proc/thread-self/.."))? {
        let stat = std::fs::read_to_string(task?.path().join("stat"))?;
        if let Some((head, rest)) = stat.rsplit_once(')')
            && head.ends_with("(links")
        {
            let fields: Vec<&str> = rest.split_whitespace().collect();
            return Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?);
        }
    }
    Err("no thread called links".into())
}

fn links_that_do_not_exist_are_rejected() -> TrialOutcome {
    let lab = Lab::symmetric(&delayed(Duration::ZERO))?;
    let refused = [
        lab.plane.report(7).err(),
        lab.plane.restart(7, [1, 2]).err(),
        lab.plane.change(7, LinkDirection::Reverse, LinkChange::default()).err(),
        lab.plane.follow(7, LinkDirection::Reverse, ChangeSchedule::default()).err(),
        lab.plane.set_condition(7, PipeCondition::Carrying).err(),
    ];
    let all = refused.iter().all(|error| matches!(error, Some(PlaneError::NoSuchLink { link: 7 })));
    ensure!(all, "{refused:?}");
    Ok(())
}

fn a_name_that_is_taken_is_rejected() -> TrialOutcome {
    let lab = Lab::symmetric(&delayed(Duration::ZERO))?;
    let error = Tun::create(&lab.client.namespace, INTERFACE, MTU).err();
    ensure!(matches!(&error, Some(TunError::Refused { .. })), "{error:?}");
    let text = error.map(|error| error.to_string()).unwrap_or_default();
    ensure!(text.contains(INTERFACE) && text.contains("exists already"), "{text}");
    Ok(())
}
