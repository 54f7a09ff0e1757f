//! Deviations of measured links.

use pathbench_lab::calibration::judgement::{
    ExpectedLoss, binomial_tails, expected_delay_ms, expected_loss, expected_rate_bps, is_improbable, judge,
};
use pathbench_lab::scenario::{self, LinkPlan, Overrides, ScenarioSource};
use pathbench_link::{GilbertElliott, LinkModel, LossModel};
use pathbench_record::document::{LinkMeasurement, OneWayDelay};
use pathbench_traffic::calibration::{DirectionCalibration, LinkCalibration, ProbedDirection};
use std::time::Duration;

fn link(keys: &str) -> LinkPlan {
    let text = format!("name = \"t\"\n[[path]]\nname = \"eth\"\nrate = \"50mbit\"\nmtu = 1400\n{keys}\n");
    let plan = scenario::plan(&ScenarioSource::from_text("t.toml", text), &Overrides::default()).unwrap();
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
    let rtt = Duration::ZERO;
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
        ("", |m| m.forward_bps = Some(40_000_000), "link eth (client to server): 50 Mbit/s asked for, 40.00"),
        ("", |m| m.reverse_bps = None, "link eth (server to client): its rate could not be measured"),
        ("", |m| m.reverse_mtu_bytes = 1399, "link eth (server to client): MTU 1400 asked for, 1399"),
        ("", |m| m.min_rtt_ms = 5.0, "link eth: round-trip time 0 ms asked for, at least 5.00 ms"),
        (
            "engine = \"emulated\"",
            |m| m.forward_delay = Some(OneWayDelay { p50_ms: 3.0, ..OneWayDelay::default() }),
            "link eth (client to server): delay 16.3 µs asked for, 3.00 ms measured",
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
    assert!(deviations[0].contains("loss 2.000 % asked for, 100 of 1000 packets lost"), "{}", deviations[0]);
}

#[test]
fn a_policed_link_is_measured_at_the_rate_of_its_policer() {
    let policed = "policer = { rate = \"10mbit\", burst = \"64kB\" }\nloss = \"2%\"\ndelay = \"20ms\"";
    let policed = link(policed);
    assert_eq!(expected_rate_bps(&policed.forward), Some(10_000_000));
    // 2 % of the packets are lost behind the policer.
    let measured =
        LinkMeasurement { forward_bps: Some(9_800_000), reverse_bps: Some(9_780_000), ..as_asked(20.0) };
    assert_eq!(judge(&policed, &probed(980), &measured), Vec::<String>::new());
    let wrong = judge(&policed, &probed(980), &as_asked(20.0));
    assert!(wrong[0].contains("9.8 Mbit/s asked for, 49.90 measured"), "{wrong:?}");
    let rate = |keys: &str| expected_rate_bps(&link(keys).forward);
    assert_eq!(
        rate("policer = { rate = \"80mbit\", burst = \"64kB\" }"),
        Some(50_000_000),
        "the link is slower"
    );
    assert_eq!(rate("queue_discipline = \"fq_codel\""), Some(50_000_000));
    assert_eq!(rate("burst = \"20MB\""), None, "too much to empty the bucket");
    assert_eq!(rate("delay = \"20ms\"\nin_flight_limit = 30"), None);
    assert_eq!(rate("delay = \"20ms\"\nin_flight_limit = 5000"), Some(50_000_000));
}

#[test]
fn delays_and_losses_of_netems_effects_are_expected_as_they_are() {
    let delay = |keys: &str| expected_delay_ms(&link(keys).forward, 142).map(|(median, _)| median);
    let sending = 142.0 * 8.0 / 50_000.0;
    let near =
        |found: Option<f64>, expected: f64| found.is_some_and(|found| (found - expected).abs() < 0.001);
    assert!(near(delay("delay = \"20ms\""), 20.0 + sending));
    assert!(near(delay("delay = \"20ms\"\nburst = \"30kB\""), 20.0), "the bucket is full");
    let pareto = "delay = \"20ms\"\njitter = \"10ms\"\njitter_distribution = \"netem-pareto\"";
    assert!(near(delay(pareto), 20.0 + sending - 3.201), "{:?}", delay(pareto));
    assert!(near(delay("delay = \"20ms\"\nreorder_share = \"25%\""), 20.0 + sending));
    assert_eq!(delay("delay = \"20ms\"\nreorder_share = \"50%\""), None, "the median may be that of either");

    let loss = |keys: &str| expected_loss(&link(keys).forward);
    let correlated = loss("loss = \"10%\"\nloss_correlation = \"25%\"").unwrap();
    assert!((correlated.probability - 0.0174).abs() < 0.002, "{correlated:?}");
    assert!((correlated.clustering - 5.0 / 3.0).abs() < 1e-9);
    assert_eq!(loss("delay = \"20ms\"\nin_flight_limit = 30"), None);
    assert!(loss("delay = \"20ms\"\nin_flight_limit = 300").is_some());
}

#[test]
fn tails_are_those_of_the_binomial_distribution() {
    // Against tables: n = 10, p = 0.2.
    for (k, at_most, at_least) in [(0, 0.107_374, 1.0), (2, 0.677_800, 0.624_190), (5, 0.993_631, 0.032_793)]
    {
        let [below, above] = binomial_tails(10, 0.2, k);
        assert!((below - at_most).abs() < 1e-6 && (above - at_least).abs() < 1e-6, "{k}: {below} {above}");
    }
}

#[test]
fn losses_by_chance_are_tolerated_and_a_wrong_loss_is_not() {
    let two = ExpectedLoss { probability: 0.02, clustering: 1.0 };
    assert!(!is_improbable(two, 1_000, 20));
    assert!(!is_improbable(two, 1_000, 30));
    assert!(is_improbable(two, 1_000, 50));
    assert!(is_improbable(two, 1_000, 3));
    let none = ExpectedLoss { probability: 0.0, clustering: 1.0 };
    assert!(!is_improbable(none, 1_000, 0));
    assert!(is_improbable(none, 1_000, 1));
    // Losses in clusters of twenty are weaker evidence.
    assert!(!is_improbable(ExpectedLoss { clustering: 20.0, ..two }, 1_000, 60));
}

#[test]
fn a_radio_loses_what_all_its_attempts_lose() {
    let arq = pathbench_link::ArqModel { retries: 2, pause: Duration::ZERO };
    let model = LinkModel { loss: LossModel::Independent(0.1), arq: Some(arq), ..LinkModel::default() };
    assert!((expected_loss(&model).unwrap().probability - 0.001).abs() < 1e-12);
    let corrupt = LinkModel { corrupt: 0.01, ..LinkModel::default() };
    assert!((expected_loss(&corrupt).unwrap().probability - 0.01).abs() < 1e-12);
    let chain = GilbertElliott { to_bad: 0.01, to_good: 0.24, loss_good: 0.0, loss_bad: 1.0 };
    let bursty = LinkModel { loss: LossModel::GilbertElliott(chain), ..LinkModel::default() };
    let expected = expected_loss(&bursty).unwrap();
    assert!((expected.probability - 0.04).abs() < 1e-12 && (expected.clustering - 7.0).abs() < 1e-9);
}
