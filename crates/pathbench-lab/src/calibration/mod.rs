//! Calibration: the agents at the ends of each link measure it before a run; the lab compares the measured values with
//! the requested ones.

pub mod judgement;

use crate::agent::{AgentError, AgentNotice, AgentRequest};
use crate::environment::{Environment, EnvironmentError};
use crate::scenario::{LinkEngine, LinkPlan};
use pathbench_host::qdisc::default_burst_bytes;
use pathbench_link::LinkModel;
use pathbench_record::document::{LinkMeasurement, OneWayDelay, RunLink};
use pathbench_record::network::AddressFamily;
use pathbench_traffic::calibration::{CalibrationError, CalibrationPlan, LinkCalibration, ProbedDirection};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Probes per direction: enough to distinguish 2 % of loss from 5 %.
const PROBES: u32 = 1_000;

/// Upper bound: with longer trains, calibration would take longer than the runs.
const LONGEST_TRAIN: Duration = Duration::from_secs(1);

/// Length of a train behind a token bucket, in times that the data take which empty the bucket.
const EMPTYING_TIMES: u32 = 6;

/// A link that is out of tolerance is measured again, at most twice, because the machine may have been too busy to load
/// the link. The result contains the last measurement.
const TRIES: u32 = 3;

/// Measures the links one after the other, so that the measurements do not disturb each other.
pub(crate) fn measure(environment: &Environment, links: &mut [RunLink]) -> Result<(), EnvironmentError> {
    for run_link in links {
        if let Some(link) = environment.topology().link(&run_link.name) {
            measure_link(environment, link, run_link)?;
            run_link.within_tolerance = run_link.deviations.is_empty();
        }
    }
    Ok(())
}

pub(crate) fn deviations(links: &[RunLink]) -> Vec<String> {
    links.iter().flat_map(|link| link.deviations.clone()).collect()
}

fn measure_link(
    environment: &Environment,
    link: &LinkPlan,
    run_link: &mut RunLink,
) -> Result<(), EnvironmentError> {
    let family = if link.ends.iter().all(|end| end.address(AddressFamily::Ipv4).is_some()) {
        AddressFamily::Ipv4
    } else {
        AddressFamily::Ipv6
    };
    let (Some(near), Some(far)) = (link.ends[0].address(family), link.ends[1].address(family)) else {
        run_link
            .deviations
            .push(format!("link {}: its ends share no address family, it was not measured", link.name));
        return Ok(());
    };
    for _ in 0..TRIES {
        match calibrate(environment, link, near, far) {
            Ok(calibration) => {
                let measured = measurement(&calibration);
                run_link.deviations = judgement::judge(link, &calibration, &measured);
                run_link.measured = Some(measured);
            }
            Err(CalibrationError::End(error @ EnvironmentError::Agent { source: AgentError::Ended, .. })) => {
                return Err(error);
            }
            // A trace in the scenario may delay or drop packets for longer than the time limit.
            Err(CalibrationError::NoAnswer { .. }) if judgement::may_be_silent(link) => {}
            Err(CalibrationError::End(error)) if !matches!(error, EnvironmentError::Agent { .. }) => {
                return Err(error);
            }
            Err(error) => run_link.deviations = vec![format!("link {}: {error}", link.name)],
        }
        if run_link.deviations.is_empty() {
            break;
        }
    }
    Ok(())
}

fn calibrate(
    environment: &Environment,
    link: &LinkPlan,
    near: IpAddr,
    far: IpAddr,
) -> Result<LinkCalibration, CalibrationError<EnvironmentError>> {
    let plan = plan(link, SocketAddr::new(near, 0), SocketAddr::new(far, 0));
    let timeout = plan.time_limit(longest_delay(&link.forward) + longest_delay(&link.reverse));
    let request = |node: &str, command| {
        environment.ask(node, &AgentRequest::Calibrate(command), timeout, |notice| match notice {
            AgentNotice::Calibrated(report) => Some(report),
            _ => None,
        })
    };
    let [first, second] = &link.ends;
    pathbench_traffic::calibration::calibrate(
        &plan,
        &mut |command| request(&first.node, command),
        &mut |command| request(&second.node, command),
    )
}

/// The measurements of a link: its rate if constant, and for an emulated link also the other parameters of its model.
fn plan(link: &LinkPlan, near: SocketAddr, far: SocketAddr) -> CalibrationPlan {
    let plan = CalibrationPlan::new(near, far, link.mtu_bytes());
    match link.engine {
        LinkEngine::Kernel => CalibrationPlan {
            forward_bps: link.forward.rate_bps(),
            reverse_bps: link.reverse.rate_bps(),
            bucket_bytes: [&link.forward, &link.reverse].map(|model| kernel_bucket(model, link.mtu_bytes())),
            ..plan
        },
        LinkEngine::Emulated => {
            let models = [&link.forward, &link.reverse];
            let rates =
                |model: &&LinkModel| [model.mean_rate_bps(), model.policer.map(|policer| policer.rate_bps)];
            let slowest = models.iter().flat_map(rates).flatten().min();
            let emptying = models.map(judgement::emptying_time).into_iter().max().unwrap_or_default();
            let jitter = link.forward.jitter.max(link.reverse.jitter);
            CalibrationPlan {
                forward_bps: judgement::expected_rate_bps(&link.forward),
                reverse_bps: judgement::expected_rate_bps(&link.reverse),
                // Jitter affects the ends of a train as much as the delay of a packet.
                // While the data that emptied a token bucket leave, packets behind them are not spaced at the rate.
                train: (plan.train + jitter * 20 + emptying * EMPTYING_TIMES).min(LONGEST_TRAIN),
                bucket_bytes: models.map(judgement::bucket_bytes),
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

fn kernel_bucket(model: &LinkModel, mtu_bytes: u32) -> u64 {
    let default = || model.rate_bps().map_or(0, |rate_bps| default_burst_bytes(rate_bps, mtu_bytes));
    if model.burst_bytes > 0 { model.burst_bytes } else { default() }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn measurement(calibration: &LinkCalibration) -> LinkMeasurement {
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
    Some(OneWayDelay {
        packets: probes.received,
        min_ms: milliseconds(delays.min),
        p50_ms: milliseconds(delays.p50),
        p95_ms: milliseconds(delays.p95),
        max_ms: milliseconds(delays.max),
    })
}
