//! Requested against measured: every link of a lab is measured before its run, by the agents at its ends.

mod expectation;
mod judgement;

use crate::agent::{AgentError, Notice, Request};
use crate::environment::{Environment, EnvironmentError, LinkCounters};
use crate::scenario::{Engine, Family, Link};
use pathbench_host::qdisc::default_burst_bytes;
use pathbench_link::LinkModel;
use pathbench_record::document::{LinkMeasurement, OneWayDelay, RunLink};
use pathbench_traffic::calibration::{CalibrationError, CalibrationPlan, LinkCalibration, ProbedDirection};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Probes each way: enough to tell 2 % of loss from 5 %.
const PROBES: u32 = 1_000;

/// Beyond this, measuring takes longer than the runs.
const LONGEST_TRAIN: Duration = Duration::from_secs(1);

/// A link that is off is measured again, twice at most: for a moment the machine may have been too busy to load
/// it. A link that is really off stays off, and what was measured last stands in the result.
const TRIES: u32 = 3;

/// Measures every link of which there is anything to tell, one after the other so that none disturbs another.
pub(crate) fn measure(environment: &Environment) -> Result<Vec<RunLink>, EnvironmentError> {
    let topology = environment.topology();
    let told = topology.links.iter().filter(|link| topology.is_told(&link.name));
    told.map(|link| measure_link(environment, link)).collect()
}

pub(crate) fn deviations(links: &[RunLink]) -> Vec<String> {
    links.iter().flat_map(|link| link.deviations.clone()).collect()
}

fn measure_link(environment: &Environment, link: &Link) -> Result<RunLink, EnvironmentError> {
    let family = if link.ends.iter().all(|end| end.address(Family::Ipv4).is_some()) {
        Family::Ipv4
    } else {
        Family::Ipv6
    };
    let mut run_link = RunLink { name: link.name.clone(), ..RunLink::default() };
    let (Some(near), Some(far)) = (link.ends[0].address(family), link.ends[1].address(family)) else {
        run_link
            .deviations
            .push(format!("link {}: its ends share no address family, it was not measured", link.name));
        return Ok(run_link);
    };
    for _ in 0..TRIES {
        match calibrate(environment, link, near, far) {
            Ok(calibration) => {
                run_link.measured = measurement(&calibration);
                run_link.deviations = judgement::judge(link, &calibration, &run_link.measured);
            }
            Err(CalibrationError::End(error @ EnvironmentError::Agent { source: AgentError::Gone, .. })) => {
                return Err(error);
            }
            // A trace may hold the link's packets back for longer than anyone waits: that is what was asked for.
            Err(CalibrationError::NoAnswer { .. }) if expectation::may_be_silent(link) => {}
            Err(CalibrationError::End(error)) if !matches!(error, EnvironmentError::Agent { .. }) => {
                return Err(error);
            }
            Err(error) => run_link.deviations = vec![format!("link {}: {error}", link.name)],
        }
        if run_link.deviations.is_empty() {
            break;
        }
    }
    run_link.within_tolerance = run_link.deviations.is_empty();
    Ok(run_link)
}

fn calibrate(
    environment: &Environment,
    link: &Link,
    near: IpAddr,
    far: IpAddr,
) -> Result<LinkCalibration, CalibrationError<EnvironmentError>> {
    let plan = plan(link, SocketAddr::new(near, 0), SocketAddr::new(far, 0));
    let timeout = plan.time_limit(longest_delay(&link.forward) + longest_delay(&link.reverse));
    let tell = |node: &str, command| {
        environment.ask(node, &Request::Calibrate(command), timeout, |notice| match notice {
            Notice::Calibrated(report) => Some(report),
            _ => None,
        })
    };
    let [first, second] = &link.ends;
    pathbench_traffic::calibration::calibrate(
        &plan,
        &mut |command| tell(&first.node, command),
        &mut |command| tell(&second.node, command),
    )
}

/// What is measured of a link: the rate where it is a constant, and of an emulated link what else its model says.
fn plan(link: &Link, near: SocketAddr, far: SocketAddr) -> CalibrationPlan {
    let plan = CalibrationPlan::new(near, far, link.mtu_bytes());
    match link.engine {
        Engine::Kernel => CalibrationPlan {
            forward_bps: link.forward.rate_bps(),
            reverse_bps: link.reverse.rate_bps(),
            bucket_bytes: bucket_bytes(link),
            ..plan
        },
        Engine::Emulated => {
            let slowest =
                [&link.forward, &link.reverse].iter().filter_map(|model| model.mean_rate_bps()).min();
            let jitter = link.forward.jitter.max(link.reverse.jitter);
            CalibrationPlan {
                forward_bps: expectation::rate_bps(&link.forward),
                reverse_bps: expectation::rate_bps(&link.reverse),
                // The ends of a train are as blurred as a packet's delay.
                train: (plan.train + jitter * 20).min(LONGEST_TRAIN),
                probes: PROBES,
                probed_bps: slowest,
                emulated: true,
                ..plan
            }
        }
    }
}

fn longest_delay(model: &LinkModel) -> Duration {
    let base = model.constant_delay().unwrap_or(Duration::from_secs(1));
    base + model.jitter * 5
}

fn bucket_bytes(link: &Link) -> u64 {
    [&link.forward, &link.reverse]
        .iter()
        .filter_map(|model| Some(default_burst_bytes(model.rate_bps()?, link.mtu_bytes())))
        .max()
        .unwrap_or_default()
}

fn measurement(calibration: &LinkCalibration) -> LinkMeasurement {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    LinkMeasurement {
        forward_bps: calibration.forward.rate_bps,
        reverse_bps: calibration.reverse.rate_bps,
        rtt_ms: milliseconds(calibration.rtt),
        min_rtt_ms: milliseconds(calibration.min_rtt),
        forward_mtu_bytes: calibration.forward.mtu_bytes,
        reverse_mtu_bytes: calibration.reverse.mtu_bytes,
        forward_delay: calibration.forward.probes.and_then(|probes| one_way(&probes)),
        reverse_delay: calibration.reverse.probes.and_then(|probes| one_way(&probes)),
        forward_loss: calibration.forward.probes.and_then(|probes| probes.loss()),
        reverse_loss: calibration.reverse.probes.and_then(|probes| probes.loss()),
    }
}

fn one_way(probes: &ProbedDirection) -> Option<OneWayDelay> {
    let delays = probes.delays?;
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    Some(OneWayDelay {
        packets: probes.received,
        min_ms: milliseconds(delays.min),
        p50_ms: milliseconds(delays.p50),
        p95_ms: milliseconds(delays.p95),
        max_ms: milliseconds(delays.max),
    })
}

pub(crate) fn read_link_counters(
    environment: &mut Environment,
) -> Result<Vec<(String, LinkCounters)>, EnvironmentError> {
    let names: Vec<String> = environment.topology().links.iter().map(|link| link.name.clone()).collect();
    let mut counters = Vec::new();
    for name in names {
        if let Some(counted) = environment.counters(&name)? {
            counters.push((name, counted));
        }
    }
    Ok(counters)
}

pub(crate) fn count_bytes(
    links: &mut [RunLink],
    before: &[(String, LinkCounters)],
    environment: &mut Environment,
) -> Result<(), EnvironmentError> {
    for (name, after) in read_link_counters(environment)? {
        let before = before.iter().find(|(known, _)| *known == name).map(|(_, counted)| *counted);
        if let (Some(link), Some(before)) = (links.iter_mut().find(|link| link.name == name), before) {
            link.forward_bytes = Some(after.forward_bytes.saturating_sub(before.forward_bytes));
            link.reverse_bytes = Some(after.reverse_bytes.saturating_sub(before.reverse_bytes));
        }
    }
    Ok(())
}
