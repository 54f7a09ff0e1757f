//! Requested against measured: every link of a lab is measured before its run, by the agents at its ends.

use crate::agent::{AgentError, Notice, Request};
use crate::environment::{Environment, EnvironmentError, LinkCounters};
use crate::scenario::{Family, Link};
use pathbench_host::qdisc::default_burst_bytes;
use pathbench_record::document::{LinkMeasurement, RunLink};
use pathbench_traffic::calibration::{CalibrationPlan, LinkCalibration};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// One link takes about half a second; an agent that needs ten times that is stuck.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A link that is off is measured again, twice at most: for a moment the machine may have been too busy to load
/// it. A link that is really off stays off, and what was measured last stands in the result.
const TRIES: u32 = 3;

/// Deviation of the round-trip time that is the machine's, not the link's: scheduling on a busy host.
const RTT_SLACK_MS: f64 = 1.0;

/// Measures every link, one after the other so that none disturbs another.
pub(crate) fn measure(environment: &Environment) -> Result<Vec<RunLink>, EnvironmentError> {
    environment.topology().links.iter().map(|link| measure_link(environment, link)).collect()
}

/// What is off, over all links.
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
                run_link.deviations = judge(link, &run_link.measured);
            }
            Err(EnvironmentError::Agent { node, source }) if !matches!(source, AgentError::Gone) => {
                run_link.deviations =
                    vec![format!("link {}: measuring it from {node} failed: {source}", link.name)];
            }
            Err(error) => return Err(error),
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
) -> Result<LinkCalibration, EnvironmentError> {
    let [first, second] = &link.ends;
    let responder =
        environment.ask(&second.node, &Request::Respond(far), TIMEOUT, |notice| match notice {
            Notice::Responding(addresses) => addresses.first().copied(),
            _ => None,
        })?;
    let plan = CalibrationPlan {
        forward_bps: link.forward.rate_bps,
        backward_bps: link.backward.rate_bps,
        bucket_bytes: bucket_bytes(link),
        ..CalibrationPlan::new(SocketAddr::new(near, 0), responder, link.mtu_bytes)
    };
    environment.ask(&first.node, &Request::Calibrate(plan), TIMEOUT, |notice| match notice {
        Notice::Calibrated(calibration) => Some(calibration),
        _ => None,
    })
}

/// The deeper of the link's token buckets.
fn bucket_bytes(link: &Link) -> u64 {
    [&link.forward, &link.backward]
        .iter()
        .filter_map(|model| Some(default_burst_bytes(model.rate_bps?, link.mtu_bytes)))
        .max()
        .unwrap_or_default()
}

fn measurement(calibration: &LinkCalibration) -> LinkMeasurement {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    LinkMeasurement {
        forward_bps: calibration.forward_bps,
        backward_bps: calibration.backward_bps,
        rtt_ms: milliseconds(calibration.rtt),
        min_rtt_ms: milliseconds(calibration.min_rtt),
        forward_mtu_bytes: calibration.forward_mtu_bytes,
        backward_mtu_bytes: calibration.backward_mtu_bytes,
        ..LinkMeasurement::default()
    }
}

/// What of a measurement is off by more than the link's tolerance, in words.
fn judge(link: &Link, measured: &LinkMeasurement) -> Vec<String> {
    let mut deviations = Vec::new();
    let [first, second] = [&link.ends[0].node, &link.ends[1].node];
    let directions = [
        (first, second, link.forward.rate_bps, measured.forward_bps, measured.forward_mtu_bytes),
        (second, first, link.backward.rate_bps, measured.backward_bps, measured.backward_mtu_bytes),
    ];
    for (from, to, asked_bps, got_bps, got_mtu) in directions {
        let way = format!("link {} ({from} to {to})", link.name);
        if let (Some(asked), Some(got)) = (asked_bps, got_bps) {
            let deviation = got as f64 / asked as f64 - 1.0;
            if deviation.abs() > link.tolerance {
                deviations.push(format!(
                    "{way}: {} Mbit/s asked for, {:.2} measured: {:+.1} %, tolerance is {:.3} %",
                    asked as f64 / 1e6,
                    got as f64 / 1e6,
                    deviation * 100.0,
                    link.tolerance * 100.0
                ));
            }
        } else if asked_bps.is_some() {
            deviations.push(format!("{way}: its rate could not be measured"));
        }
        if got_mtu != link.mtu_bytes {
            deviations.push(format!("{way}: MTU {} asked for, {got_mtu} measured", link.mtu_bytes));
        }
    }
    let asked_rtt_ms = (link.forward.delay + link.backward.delay).as_secs_f64() * 1e3;
    let slack_ms = (asked_rtt_ms * link.tolerance).max(RTT_SLACK_MS)
        + (link.forward.jitter + link.backward.jitter).as_secs_f64() * 1e3;
    if (measured.min_rtt_ms - asked_rtt_ms).abs() > slack_ms {
        deviations.push(format!(
            "link {}: round-trip time {asked_rtt_ms:.2} ms asked for, at least {:.2} ms measured",
            link.name, measured.min_rtt_ms
        ));
    }
    deviations
}

/// The counters of every link, by name.
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

/// Notes in `links` what went over each since `before`.
pub(crate) fn count_bytes(
    links: &mut [RunLink],
    before: &[(String, LinkCounters)],
    environment: &mut Environment,
) -> Result<(), EnvironmentError> {
    for (name, after) in read_link_counters(environment)? {
        let before = before.iter().find(|(known, _)| *known == name).map(|(_, counted)| *counted);
        if let (Some(link), Some(before)) = (links.iter_mut().find(|link| link.name == name), before) {
            link.forward_bytes = Some(after.forward_bytes.saturating_sub(before.forward_bytes));
            link.backward_bytes = Some(after.backward_bytes.saturating_sub(before.backward_bytes));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{self, Overrides, Source};

    fn link() -> Link {
        let text = "name = \"t\"\ndescription = \"t\"\n[[path]]\nname = \"eth\"\nrate = \"50mbit\"\nmtu = 1400\n\
                    [run]\ntransports = [\"tcp\"]\npattern = \"iperf\"\nduration = \"1s\"\n";
        let source = Source::from_text("t.toml", text);
        scenario::plan(&source, &Overrides::default()).unwrap().variants[0].topology.links[0].clone()
    }

    fn as_asked() -> LinkMeasurement {
        LinkMeasurement {
            forward_bps: Some(49_900_000),
            backward_bps: Some(50_400_000),
            rtt_ms: 0.2,
            min_rtt_ms: 0.1,
            forward_mtu_bytes: 1400,
            backward_mtu_bytes: 1400,
            ..LinkMeasurement::default()
        }
    }

    #[test]
    fn a_link_as_asked_for_has_no_deviation() {
        assert_eq!(judge(&link(), &as_asked()), Vec::<String>::new());
    }

    #[test]
    fn each_deviation_is_named_with_its_direction() {
        type Spoil = fn(&mut LinkMeasurement);
        let cases: [(Spoil, &str); 4] = [
            (|m| m.forward_bps = Some(40_000_000), "link eth (client to server): 50 Mbit/s asked for, 40.00"),
            (|m| m.backward_bps = None, "link eth (server to client): its rate could not be measured"),
            (|m| m.backward_mtu_bytes = 1399, "link eth (server to client): MTU 1400 asked for, 1399"),
            (|m| m.min_rtt_ms = 5.0, "link eth: round-trip time 0.00 ms asked for, at least 5.00"),
        ];
        for (spoil, expected) in cases {
            let mut measured = as_asked();
            spoil(&mut measured);
            let deviations = judge(&link(), &measured);
            assert_eq!(deviations.len(), 1, "{deviations:?}");
            assert!(deviations[0].starts_with(expected), "{}", deviations[0]);
        }
    }
}
