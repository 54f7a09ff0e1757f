//! Latency under load on emulated links: the delay of every kind of probe against the queue that the link itself reports.

use crate::support::Workplace;
use crate::support::measured::Measured;
use pathbench_record::direction::LinkDirection;
use pathbench_record::document::{ResponseDelay, ResponsivenessRecord, RunRecord};
use pathbench_record::response::{LoadPhase, ProbeKind};
use pathbench_record::statistics::nearest_rank;

const RATE_BPS: f64 = 20e6;
const QUEUE_MS: f64 = 300.0;
/// Round trips of the two paths without a queue.
static BASES: [(&str, f64); 2] = [("wlan", 20.0), ("lte", 50.0)];

fn paths(disciplines: [&str; 2]) -> String {
    let [wlan, lte] = disciplines;
    format!(
        r#"
        [[path]]
        name = "wlan"
        rate = "20mbit"
        delay = "10ms"
        queue = "300ms"
        queue_discipline = "{wlan}"
        [[path]]
        name = "lte"
        rate = "20mbit"
        delay = "25ms"
        queue = "300ms"
        queue_discipline = "{lte}"
        "#
    )
}

fn measure(name: &str, disciplines: [&str; 2], labels: &str, phases: &str) -> Measured {
    let rest = format!(
        r#"
        [run]
        transports = [{labels}]
        pattern = "responsiveness"
        congestion = "cubic"
        repeat = 1
        sample_interval = "20ms"
        [run.quic]
        congestion = "cubic"
        [run.responsiveness]
        idle = "1s"
        {phases}
        phases = ["download", "upload"]
        "#
    );
    // All at the same time: they mostly wait, and each moves 40 Mbit/s at most.
    let options = ["--no-calibration", "--jobs", "6", "--retry-invalid", "2"];
    Workplace::new().lab_run(name, &format!("{}\n{rest}", paths(disciplines)), &options)
}

fn record(run: &RunRecord) -> &ResponsivenessRecord {
    assert!(run.valid && run.completed, "{}: {:?} {:?}", run.label, run.invalid_because, run.error);
    let record = run.responsiveness.as_ref().unwrap();
    assert_eq!(record.not_examined, [], "{}", run.label);
    record
}

#[track_caller]
fn delay<'a>(run: &'a RunRecord, kind: ProbeKind, path: Option<&str>, phase: LoadPhase) -> &'a ResponseDelay {
    let phases = record(run).delays(kind, path).unwrap_or_else(|| panic!("{}: no {path:?}", run.label));
    phases.get(&phase).unwrap_or_else(|| panic!("{}: no {phase:?}", run.label))
}

#[track_caller]
fn median(run: &RunRecord, kind: ProbeKind, path: Option<&str>, phase: LoadPhase) -> f64 {
    delay(run, kind, path, phase).p50_ms.unwrap()
}

/// The 95th percentile of the time that the link's own queue held in the measured part of a phase.
fn queued_ms(measured: &Measured, run: &RunRecord, link: &str, phase: LoadPhase) -> f64 {
    let window = &record(run).phases[&phase];
    let direction = if phase == LoadPhase::Upload { LinkDirection::Forward } else { LinkDirection::Reverse };
    let samples = measured.links.iter().filter(|one| {
        one.run == run.id
            && one.link == link
            && one.direction == direction
            && (window.measured_from_ms..window.to_ms).contains(&one.t_ms)
    });
    let queues: Vec<f64> = samples.map(|one| one.queue_bytes as f64 * 8e3 / RATE_BPS).collect();
    nearest_rank(&queues, 0.95).unwrap()
}

fn used_paths(run: &RunRecord) -> &'static [(&'static str, f64)] {
    if run.transport.is_multipath() { &BASES } else { &BASES[..1] }
}

const LOADED: [LoadPhase; 2] = [LoadPhase::Download, LoadPhase::Upload];

/// Slow start over QUIC, and the kernel's CUBIC some seconds after `HyStart`, fill the queue of 300 ms: UDP probes of each
/// path have its base round trip and its queue; requests on a new connection wait as long; requests on the loaded
/// connection also wait for the data that its sender holds.
#[test]
fn delay_under_load_is_base_and_queue_for_every_transport_in_both_directions() {
    let labels = r#""tcp@wlan", "mptcp", "quic@wlan", "mpquic""#;
    let phases = "load = \"8s\"\nsettle = \"500ms\"";
    let measured = measure("deep", ["drop-tail", "drop-tail"], labels, phases).expect(0);
    for label in ["tcp@wlan", "mptcp", "quic@wlan", "mpquic"] {
        let run = measured.run(label);
        let idle = median(run, ProbeKind::Own, None, LoadPhase::Idle);
        assert!((20.0..40.0).contains(&idle), "{label}: {idle} ms while idle");
        for phase in LOADED {
            for &(path, base_ms) in used_paths(run) {
                let found = delay(run, ProbeKind::Path, Some(path), phase);
                let p95 = found.p95_ms.unwrap();
                for model in [base_ms + QUEUE_MS, base_ms + queued_ms(&measured, run, path, phase)] {
                    let ratio = p95 / model;
                    let what = format!("{label}, {path}, {phase:?}: p95 {p95} ms, model {model} ms");
                    assert!((0.9..=1.1).contains(&ratio), "{what}");
                }
            }
            let own = median(run, ProbeKind::Own, None, phase);
            let foreign = median(run, ProbeKind::Foreign, None, phase);
            assert!(own > foreign + 100.0, "{label}, {phase:?}: self {own} ms, foreign {foreign} ms");
            let loaded = delay(run, ProbeKind::Own, None, phase);
            let increase = loaded.increase_p50_ms.unwrap();
            assert!((increase - (own - idle)).abs() < 1e-6, "{label}: {increase}");
            // RPM is of means, which the time until the queue is full lowers.
            let figures = &record(run).phases[&phase];
            let range = 60_000.0 / loaded.p99_ms.unwrap()..20_000.0 / idle;
            assert!(range.contains(&figures.rpm.unwrap()), "{label}: {figures:?}, {range:?}");
        }
    }
    // Each probe is a line, with its phase.
    let run = measured.run("mptcp");
    let of_lte =
        measured.messages.iter().filter(|line| line.run == run.id && line.path.as_deref() == Some("lte"));
    let in_download = of_lte.filter(|line| line.phase == Some(LoadPhase::Download)).count();
    let sent = delay(run, ProbeKind::Path, Some("lte"), LoadPhase::Download).sent;
    assert_eq!(in_download, sent as usize);
}

/// `CoDel` (RFC 8289) has a target of 5 ms, PIE (RFC 8033) of 15 ms; the deep queue would add 200 to 300 ms.
#[test]
fn codel_and_pie_keep_the_delay_near_their_targets() {
    let labels = r#""tcp@wlan", "tcp@lte", "mptcp", "quic@wlan", "quic@lte", "mpquic""#;
    let phases = "load = \"4s\"\nsettle = \"2s\"";
    let measured = measure("aqm", ["codel", "pie"], labels, phases).expect(0);
    let most_ms = |path: &str| if path == "wlan" { 5.0 * 4.0 } else { 15.0 * 3.0 };
    for run in &measured.document.runs {
        if !run.valid {
            continue;
        }
        for phase in LOADED {
            for (path, base_ms) in BASES {
                if !run.transport.is_multipath() && !run.label.ends_with(path) {
                    continue;
                }
                let found = median(run, ProbeKind::Path, Some(path), phase) - base_ms;
                assert!(found < most_ms(path), "{}, {path}, {phase:?}: {found} ms above the base", run.label);
            }
        }
    }
    assert!(measured.document.runs.iter().filter(|run| run.valid).count() >= 6);
}
