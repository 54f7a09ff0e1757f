//! What of a measurement is off by more than a link's tolerance and chance allow, in words.

use super::expectation::{self, is_improbable};
use crate::scenario::{Engine, Link};
use pathbench_link::LinkModel;
use pathbench_record::document::{LinkMeasurement, OneWayDelay};
use pathbench_traffic::calibration::{LinkCalibration, ProbedDirection};

/// Deviation of a delay that is the machine's, not the link's: scheduling on a busy host.
const SLACK_MS: f64 = 1.0;

/// An Ethernet frame of a probe: 40 bytes under UDP and IPv6.
const PROBE_FRAME_BYTES: u64 = 40 + 8 + 40 + 14;

struct Judged<'a> {
    link: &'a Link,
    way: String,
    model: &'a LinkModel,
    rate_bps: Option<u64>,
    mtu_bytes: u32,
    delay: Option<OneWayDelay>,
    probes: Option<ProbedDirection>,
}

pub(super) fn judge(link: &Link, calibration: &LinkCalibration, measured: &LinkMeasurement) -> Vec<String> {
    let [first, second] = [&link.ends[0].node, &link.ends[1].node];
    let directions = [
        Judged {
            link,
            way: format!("link {} ({first} to {second})", link.name),
            model: &link.forward,
            rate_bps: measured.forward_bps,
            mtu_bytes: measured.forward_mtu_bytes,
            delay: measured.forward_delay,
            probes: calibration.forward.probes,
        },
        Judged {
            link,
            way: format!("link {} ({second} to {first})", link.name),
            model: &link.reverse,
            rate_bps: measured.reverse_bps,
            mtu_bytes: measured.reverse_mtu_bytes,
            delay: measured.reverse_delay,
            probes: calibration.reverse.probes,
        },
    ];
    let mut deviations: Vec<String> = directions
        .iter()
        .flat_map(|direction| [direction.rate(), direction.mtu(), direction.delay(), direction.loss()])
        .flatten()
        .collect();
    if link.engine == Engine::Kernel {
        deviations.extend(round_trip(link, measured));
    }
    deviations
}

impl Judged<'_> {
    fn rate(&self) -> Option<String> {
        let asked = expectation::rate_bps(self.model)?;
        let Some(got) = self.rate_bps else {
            return Some(format!("{}: its rate could not be measured", self.way));
        };
        let deviation = got as f64 / asked as f64 - 1.0;
        (deviation.abs() > self.link.tolerance).then(|| {
            format!(
                "{}: {} Mbit/s asked for, {:.2} measured: {:+.1} %, tolerance is {:.3} %",
                self.way,
                asked as f64 / 1e6,
                got as f64 / 1e6,
                deviation * 100.0,
                self.link.tolerance * 100.0
            )
        })
    }

    fn mtu(&self) -> Option<String> {
        let (asked, got) = (self.link.mtu_bytes(), self.mtu_bytes);
        // Where hardly any packet arrives, none of full size may have.
        let lost = self.model.independent_loss().is_none_or(|loss| loss > 0.5);
        (got != asked && !lost).then(|| format!("{}: MTU {asked} asked for, {got} measured", self.way))
    }

    fn delay(&self) -> Option<String> {
        if self.link.engine == Engine::Kernel {
            return None;
        }
        let (expected, blur) = expectation::delay(self.model, PROBE_FRAME_BYTES)?;
        let (asked_ms, blur_ms) = (expected.as_secs_f64() * 1e3, blur.as_secs_f64() * 1e3);
        let got = self.delay?.p50_ms;
        let slack_ms = asked_ms * self.link.tolerance + SLACK_MS + blur_ms;
        ((got - asked_ms).abs() > slack_ms)
            .then(|| format!("{}: delay {asked_ms:.2} ms asked for, {got:.2} ms measured (median)", self.way))
    }

    fn loss(&self) -> Option<String> {
        if self.link.engine == Engine::Kernel {
            return None;
        }
        let (expected, probes) = (expectation::loss(self.model)?, self.probes?);
        let lost = probes.sent.saturating_sub(probes.received);
        is_improbable(expected, probes.sent, lost).then(|| {
            format!(
                "{}: loss {:.3} % asked for, {lost} of {} packets lost: less probable than one in a thousand",
                self.way,
                expected.probability * 100.0,
                probes.sent
            )
        })
    }
}

/// The kernel's links are judged by their round trip, as netem's delay can be measured from one end.
fn round_trip(link: &Link, measured: &LinkMeasurement) -> Option<String> {
    let asked = link.forward.constant_delay()? + link.reverse.constant_delay()?;
    let asked_ms = asked.as_secs_f64() * 1e3;
    let jitter_ms = (link.forward.jitter + link.reverse.jitter).as_secs_f64() * 1e3;
    let slack_ms = (asked_ms * link.tolerance).max(SLACK_MS) + jitter_ms;
    ((measured.min_rtt_ms - asked_ms).abs() > slack_ms).then(|| {
        format!(
            "link {}: round-trip time {asked_ms:.2} ms asked for, at least {:.2} ms measured",
            link.name, measured.min_rtt_ms
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{self, Overrides, Source};
    use pathbench_traffic::calibration::DirectionCalibration;

    fn link(keys: &str) -> Link {
        let text = format!("name = \"t\"\n[[path]]\nname = \"eth\"\nrate = \"50mbit\"\nmtu = 1400\n{keys}\n");
        let plan = scenario::plan(&Source::from_text("t.toml", text), &Overrides::default()).unwrap();
        plan.variants[0].topology.links[0].clone()
    }

    fn as_asked(delay_ms: f64) -> LinkMeasurement {
        let delay = OneWayDelay { packets: 980, p50_ms: delay_ms, ..OneWayDelay::default() };
        LinkMeasurement {
            forward_bps: Some(49_900_000),
            reverse_bps: Some(50_400_000),
            rtt_ms: 0.2 + 2.0 * delay_ms,
            min_rtt_ms: 0.1 + 2.0 * delay_ms,
            forward_mtu_bytes: 1400,
            reverse_mtu_bytes: 1400,
            forward_delay: Some(delay),
            reverse_delay: Some(delay),
            ..LinkMeasurement::default()
        }
    }

    fn probed(received: u32) -> LinkCalibration {
        let probes = Some(ProbedDirection { sent: 1_000, received, delays: None });
        let direction = DirectionCalibration { rate_bps: None, mtu_bytes: 1400, probes };
        let rtt = std::time::Duration::ZERO;
        LinkCalibration { rtt, min_rtt: rtt, forward: direction, reverse: direction }
    }

    #[test]
    fn a_link_as_asked_for_has_no_deviation() {
        assert_eq!(judge(&link(""), &probed(1_000), &as_asked(0.0)), Vec::<String>::new());
        let emulated = link("delay = \"20ms\"\nloss = \"2%\"\n");
        assert_eq!(judge(&emulated, &probed(981), &as_asked(20.1)), Vec::<String>::new());
    }

    #[test]
    fn each_deviation_is_named_with_its_direction() {
        type Spoil = fn(&mut LinkMeasurement);
        let cases: [(&str, Spoil, &str); 5] = [
            (
                "",
                |m| m.forward_bps = Some(40_000_000),
                "link eth (client to server): 50 Mbit/s asked for, 40.00",
            ),
            ("", |m| m.reverse_bps = None, "link eth (server to client): its rate could not be measured"),
            ("", |m| m.reverse_mtu_bytes = 1399, "link eth (server to client): MTU 1400 asked for, 1399"),
            ("", |m| m.min_rtt_ms = 5.0, "link eth: round-trip time 0.00 ms asked for, at least 5.00"),
            (
                "engine = \"emulated\"",
                |m| m.forward_delay = Some(OneWayDelay { p50_ms: 3.0, ..OneWayDelay::default() }),
                "link eth (client to server): delay 0.02 ms asked for, 3.00 ms measured",
            ),
        ];
        for (keys, spoil, expected) in cases {
            let mut measured = as_asked(0.0);
            spoil(&mut measured);
            let deviations = judge(&link(keys), &probed(1_000), &measured);
            assert_eq!(deviations.len(), 1, "{deviations:?}");
            assert!(deviations[0].starts_with(expected), "{}", deviations[0]);
        }
    }

    #[test]
    fn a_loss_beyond_chance_is_a_deviation() {
        let emulated = link("delay = \"20ms\"\nloss = \"2%\"\n");
        let deviations = judge(&emulated, &probed(900), &as_asked(20.0));
        assert_eq!(deviations.len(), 2, "{deviations:?}");
        assert!(
            deviations[0].contains("loss 2.000 % asked for, 100 of 1000 packets lost"),
            "{}",
            deviations[0]
        );
    }
}
