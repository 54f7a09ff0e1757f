//! The comparison over repetitions.

use crate::document as example;

use pathbench_record::direction::Direction;
use pathbench_record::document::{
    DelayRecord, HandoverReason, HandoverRecord, LinkFigures, LinkMeasurement, LinkRecord, PathRecord,
    ResultDocument, RunLink, RunRecord, Variant,
};
use pathbench_record::summary::{
    figure, figure_names, max_delay_pairs, measure_links, order_of_variants, summarise, summarise_mobility,
};
use pathbench_record::transport::Transport;
use serde_json::{Value, json};

/// A valid, completed run with the figures that a test cares about.
fn run(label: &str, goodput: f64, recovery: Option<f64>, wlan: f64) -> RunRecord {
    let ResultDocument { mut runs, .. } = example::document();
    let mut run = runs.remove(0);
    label.clone_into(&mut run.label);
    (run.valid, run.completed) = (true, true);
    (run.goodput_mbps, run.recovery_ms, run.hung_ms) = (Some(goodput), recovery, None);
    run.paths = [("eth", 1.0 - wlan), ("wlan", wlan)]
        .map(|(name, share)| PathRecord { name: name.to_owned(), share, ..PathRecord::default() })
        .into();
    run
}

#[test]
fn only_valid_runs_count_and_missing_figures_show() {
    let mut invalid = run("mptcp", 9999.0, Some(9999.0), 1.0);
    invalid.valid = false;
    let mut died = run("mptcp", 300.0, None, 0.2);
    (died.completed, died.multipath.used) = (false, false);
    let runs = [
        run("tcp@wlan", 900.0, None, 1.0),
        run("mptcp", 1000.0, Some(200.0), 0.5),
        invalid,
        run("mptcp", 1200.0, Some(300.0), 0.4),
        died,
    ];
    let groups = summarise(&runs);
    let labels: Vec<&str> = groups.iter().map(|group| group.label.as_str()).collect();
    assert_eq!(labels, ["tcp@wlan", "mptcp"], "in the order of first appearance");
    let mptcp = &groups[1];
    assert_eq!((mptcp.runs, mptcp.valid, mptcp.completed, mptcp.multipath_used), (4, 3, 2, 2));
    let goodput = &mptcp.figures["goodput_mbps"];
    assert_eq!((goodput.n, goodput.ci95), (3, None));
    let found = [goodput.median, goodput.min, goodput.max].map(|mbps| mbps.round() as u64);
    assert_eq!(found, [1000, 300, 1200]);
    let recovery = &mptcp.figures["recovery_ms"];
    assert_eq!((recovery.n, recovery.median.to_bits()), (2, 250.0_f64.to_bits()));
    assert!(!mptcp.figures.contains_key("hung_ms"), "a figure that no run has is absent");
    assert!((mptcp.shares["wlan"] - 0.4).abs() < 1e-12);
}

#[test]
fn variants_are_kept_apart_and_an_absent_path_has_no_share() {
    let mut other = run("mptcp", 500.0, None, 0.5);
    other.variant = [("run.throughput.streams".to_owned(), json!(4))].into();
    let mut one_path = run("mptcp", 500.0, None, 0.5);
    one_path.paths.truncate(1);
    one_path.paths[0].share = 1.0;
    let mut without_valid = run("tcp", 1.0, None, 0.5);
    without_valid.valid = false;
    let groups = summarise(&[run("mptcp", 1000.0, None, 0.4), other.clone(), one_path, without_valid]);
    assert_eq!(groups.len(), 3);
    assert_eq!(groups[1].variant, other.variant);
    assert!((groups[0].shares["wlan"] - 0.2).abs() < 1e-12, "median of 0.4 and nothing");
    assert_eq!((groups[2].runs, groups[2].valid), (1, 0));
    assert!(groups[2].figures.is_empty() && groups[2].shares.is_empty());
    assert!(summarise(&[]).is_empty());
}

#[test]
fn links_get_the_medians_of_the_runs_of_their_variant() {
    let measured = |rate: u64, rtt: f64| LinkMeasurement {
        forward_bps: Some(rate),
        reverse_bps: None,
        rtt_ms: rtt,
        min_rtt_ms: rtt / 2.0,
        forward_mtu_bytes: 1500,
        reverse_mtu_bytes: 1400,
        ..LinkMeasurement::default()
    };
    let run_over = |rate, rtt, variant: &str| {
        let mut run = run("mptcp", 1.0, None, 0.5);
        run.variant = [("path.wlan.rate".to_owned(), json!(variant))].into();
        run.links = vec![RunLink {
            name: "wlan".to_owned(),
            measured: Some(measured(rate, rtt)),
            within_tolerance: true,
            deviations: Vec::new(),
            forward_bytes: None,
            reverse_bytes: None,
            ..RunLink::default()
        }];
        run
    };
    let runs = [
        run_over(100, 1.0, "slow"),
        run_over(900, 3.0, "fast"),
        run_over(1000, 4.0, "fast"),
        run_over(2000, 8.0, "fast"),
    ];
    let link = |name: &str, variant: Option<&str>| {
        let mut link = example::document().links.remove(0);
        link.name = name.to_owned();
        link.variant = variant.map(|value| ("path.wlan.rate".to_owned(), json!(value))).into_iter().collect();
        link
    };
    let mut links: Vec<LinkRecord> = vec![link("wlan", Some("fast")), link("wlan", None), link("eth", None)];
    measure_links(&mut links, &runs);
    assert_eq!(links[0].measured, Some(measured(1000, 4.0)));
    assert_eq!(links[1].measured, Some(measured(950, 3.5)));
    assert_eq!(links[2].measured, None, "no run measured it");
}

/// A run of messages with these largest delays up and down, and perhaps a handover.
fn mobile_run(
    transport: Transport,
    repetition: u32,
    max_ms: [f64; 2],
    handover: Option<(HandoverReason, f64)>,
) -> RunRecord {
    let mut run = run(transport.name(), 1.0, None, 0.5);
    (run.transport, run.repetition, run.pattern) = (transport, repetition, "interactive".to_owned());
    let template = run.directions.remove(0);
    for (direction, max) in Direction::BOTH.into_iter().zip(max_ms) {
        let mut of_direction = template.clone();
        of_direction.direction = direction;
        of_direction.delay_ms = of_direction.delay_ms.map(|delay| DelayRecord { max, ..delay });
        run.directions.push(of_direction);
    }
    let template = example::emulated::handover();
    run.handover = handover.map(|(reason, received)| HandoverRecord {
        reason,
        duration_received_ms: Some(received),
        ..template
    });
    run
}

#[test]
fn the_two_multipath_transports_are_compared_repetition_by_repetition() {
    use HandoverReason::{Other, UnderRto};
    let mut invalid = mobile_run(Transport::Mptcp, 3, [9.0, 9.0], Some((Other, 1.0)));
    invalid.valid = false;
    let runs = [
        mobile_run(Transport::Mptcp, 2, [300.0, 900.0], Some((UnderRto, -230.0))),
        mobile_run(Transport::Mpquic, 1, [400.0, 100.0], None),
        mobile_run(Transport::Mptcp, 1, [200.0, 50.0], Some((UnderRto, 4000.0))),
        mobile_run(Transport::Mpquic, 2, [200.0, 300.0], Some((Other, 10.0))),
        mobile_run(Transport::Tcp, 1, [1.0, 1.0], None),
        invalid,
        mobile_run(Transport::Mpquic, 3, [1.0, 1.0], None),
        // No mpquic of this repetition.
        mobile_run(Transport::Mptcp, 4, [1.0, 1.0], None),
    ];
    let all: Vec<&RunRecord> = runs.iter().collect();
    assert_eq!(max_delay_pairs(&all, Direction::Upload), [[200.0, 400.0], [300.0, 200.0]]);
    let summaries = summarise_mobility(&runs);
    assert_eq!(summaries.len(), 1);
    let summary = &summaries[0];
    assert_eq!(summary.max_delay_ratios["upload"], [0.5, 1.5]);
    assert_eq!(summary.max_delay_ratios["download"], [0.5, 3.0]);
    let [mpquic, mptcp] = &summary.handovers[..] else { panic!("{summary:?}") };
    assert_eq!((mptcp.label.as_str(), mptcp.runs, mptcp.handovers, mptcp.abrupt), ("mptcp", 3, 2, 1));
    assert_eq!(mptcp.reasons, [(UnderRto, 2)].into());
    assert_eq!((mpquic.label.as_str(), mpquic.runs, mpquic.handovers, mpquic.abrupt), ("mpquic", 3, 1, 0));
    let groups = summarise(&runs);
    assert_eq!(groups[0].figures["delay_max_upload_ms"].max.to_bits(), 300.0_f64.to_bits());
    assert_eq!(groups[0].figures["handover_received_ms"].n, 2);
    // No handover and no pair: no summary.
    assert!(summarise_mobility(&[mobile_run(Transport::Mptcp, 1, [1.0, 1.0], None)]).is_empty());
}

#[test]
fn delays_and_losses_of_links_are_gathered_over_runs() {
    let measured = |p50: f64, min: f64, loss: f64| {
        let mut run = run("mptcp", 1.0, None, 0.5);
        let link = run.links[0].measured.as_mut().unwrap();
        let delay = link.forward_delay.as_mut().unwrap();
        (delay.p50_ms, delay.min_ms, delay.packets) = (p50, min, 100);
        (link.forward_loss, link.reverse_loss, link.reverse_delay) = (Some(loss), None, None);
        run
    };
    let runs = [measured(20.0, 19.0, 0.0), measured(22.0, 18.0, 0.0), measured(21.0, 19.5, 0.03)];
    let ResultDocument { mut links, .. } = example::document();
    measure_links(&mut links, &runs);
    let found = links[0].measured.clone().unwrap();
    let delay = found.forward_delay.unwrap();
    assert_eq!((delay.packets, delay.min_ms as u32, delay.p50_ms as u32), (300, 18, 21));
    assert!((found.forward_loss.unwrap() - 0.01).abs() < 1e-12, "a median of 0 would hide the losses");
    assert_eq!((found.reverse_loss, found.reverse_delay), (None, None));
}

#[test]
fn variants_are_in_the_order_of_their_numbers() {
    let variant = |value: Value| [("path.wlan.rate".to_owned(), value)].into();
    let mut variants: Vec<Variant> =
        [json!("cubic"), json!("10mbit"), json!("9mbit"), json!(-3), json!("bbr"), json!(2.5)]
            .map(variant)
            .into();
    variants.sort_by(order_of_variants);
    let values: Vec<&Value> = variants.iter().flat_map(Variant::values).collect();
    assert_eq!(
        values,
        [&json!(-3), &json!(2.5), &json!("9mbit"), &json!("10mbit"), &json!("bbr"), &json!("cubic")]
    );
    assert!(order_of_variants(&Variant::new(), &variants[0]).is_lt());
}

#[test]
fn the_round_trip_time_of_a_link_is_the_sum_of_its_delays() {
    let rtt_ms = |forward: Option<f64>, reverse: Option<f64>| {
        let mut figures = LinkFigures::default();
        (figures.forward.delay_ms, figures.reverse.delay_ms) = (forward, reverse);
        figures.rtt_ms()
    };
    assert_eq!(rtt_ms(Some(10.0), Some(30.0)), Some(40.0));
    assert_eq!(rtt_ms(Some(10.0), None), Some(10.0));
    assert_eq!(rtt_ms(None, None), None);
}

#[test]
fn a_delay_of_zero_forms_no_pair() {
    let runs = [
        mobile_run(Transport::Mptcp, 1, [0.0, 5.0], None),
        mobile_run(Transport::Mpquic, 1, [20.0, 0.0], None),
        mobile_run(Transport::Mptcp, 2, [30.0, 5.0], None),
        mobile_run(Transport::Mpquic, 2, [20.0, 5.0], None),
    ];
    let all: Vec<&RunRecord> = runs.iter().collect();
    assert_eq!(max_delay_pairs(&all, Direction::Upload), [[30.0, 20.0]]);
    assert_eq!(max_delay_pairs(&all, Direction::Download), [[5.0, 5.0]]);
}

#[test]
fn pairs_have_one_pattern_and_one_first_path() {
    let mut on_wlan = mobile_run(Transport::Mptcp, 1, [30.0, 5.0], None);
    on_wlan.label = "mptcp@wlan".to_owned();
    let mut on_eth = mobile_run(Transport::Mpquic, 1, [20.0, 5.0], None);
    on_eth.label = "mpquic@eth".to_owned();
    assert!(max_delay_pairs(&[&on_wlan, &on_eth], Direction::Upload).is_empty());
    on_eth.label = "mpquic@wlan".to_owned();
    assert_eq!(max_delay_pairs(&[&on_wlan, &on_eth], Direction::Upload), [[30.0, 20.0]]);
    on_eth.pattern = "ping".to_owned();
    assert!(max_delay_pairs(&[&on_wlan, &on_eth], Direction::Upload).is_empty());
}

#[test]
fn a_handover_is_abrupt_if_reception_ended_before_it() {
    let is_abrupt = |duration_received_ms: Option<f64>| {
        HandoverRecord { duration_received_ms, ..example::emulated::handover() }.is_abrupt()
    };
    assert!(is_abrupt(Some(-0.1)));
    assert!(!is_abrupt(Some(0.0)) && !is_abrupt(None));
}

#[test]
fn every_figure_of_a_run_is_found_by_its_name() {
    let run = run("mptcp", 1000.0, Some(200.0), 0.5);
    for (name, value) in [
        ("goodput_mbps", Some(1000.0)),
        ("stall_ms", Some(231.4)),
        ("recovery_ms", Some(200.0)),
        ("dip", Some(1.0)),
        ("failback_ms", Some(812.5)),
        ("hung_ms", None),
        ("handshake_ms", Some(21.5)),
        ("fct_ms", Some(812.25)),
        ("ping_ms", Some(21.0)),
        ("delay_p50_ms", Some(22.5)),
        ("delay_p95_ms", Some(231.0)),
        ("delay_max_ms", Some(5000.0)),
        ("delay_max_upload_ms", Some(5000.0)),
        ("delay_max_download_ms", None),
        ("handover_sent_ms", Some(412.5)),
        ("handover_received_ms", Some(-230.75)),
        ("self_idle_p50_ms", None),
        ("self_loaded_p50_ms", Some(275.5)),
        ("foreign_loaded_p95_ms", Some(319.0)),
        ("path_increase_p95_ms", Some(298.4)),
        ("rpm", Some(172.5)),
        ("datagram_loss", None),
        ("datagram_jitter_ms", None),
        ("datagram_late_share", None),
        ("datagram_gap_ms", None),
        ("goodput", None),
    ] {
        assert_eq!(figure(&run, name), value, "{name}");
    }
    assert_eq!(figure_names().count(), 30);
}
