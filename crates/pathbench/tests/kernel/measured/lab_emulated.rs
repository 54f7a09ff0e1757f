//! `lab run` over emulated links: delay, loss and rate as configured, end to end; events, fades, captures; equal
//! losses for equal seeds.
//!
//! Assertions are on physics: no packet arrives before the link's delay, no link carries more than its rate, packets
//! are conserved. Times have tolerance for a busy machine.

use crate::support::measured::{Measured, goodput, path, read_capture};
use crate::support::{Workplace, binary, finish};
use pathbench_record::direction::LinkDirection;
use pathbench_record::document::{EmulatedDirection, LinkSample, Phase, RunLink, RunRecord};
use pathbench_record::event::{Event, EventSource};
use std::process::Command;
use std::sync::LazyLock;

/// Calibration must not fail on a busy machine; assertions about times have their own tolerance.
const PATIENT: &str = "lateness_tolerance = \"10s\"\n";

fn link<'a>(run: &'a RunRecord, name: &str) -> &'a RunLink {
    run.links.iter().find(|link| link.name == name).unwrap_or_else(|| panic!("no link {name}: {run:#?}"))
}

fn forward(run: &RunRecord, name: &str) -> EmulatedDirection {
    link(run, name).emulation.clone().unwrap_or_else(|| panic!("no record of {name}")).forward
}

fn dropped(direction: &EmulatedDirection) -> u64 {
    direction.dropped_packets.values().sum()
}

/// Number of standard deviations that contain 99.99 % of all samples of a binomial share.
const SIGMAS: f64 = 3.9;

/// Attempts at a run without a stall of the machine.
const ATTEMPTS: u32 = 4;

/// One path with 10 Mbit/s, 30 ms and 2 % loss in each direction, with pings and TCP. A run that is invalid because
/// the machine was too busy is repeated.
static ONE_PATH: LazyLock<Measured> = LazyLock::new(|| {
    let text = format!(
        "[[path]]\nname = \"lte\"\nrate = \"10mbit\"\ndelay = \"30ms\"\nloss = \"2%\"\ntolerance = \"10%\"\n\
         [run]\ntransports = [\"tcp\"]\npattern = [\"throughput\", \"ping\"]\nduration = \"4s\"\n{PATIENT}"
    );
    let measured = || Workplace::new().lab_run("one-path", &text, &[]);
    let is_valid = |measured: &Measured| measured.document.runs.iter().all(|run| run.valid);
    (1..ATTEMPTS).map(|_| measured()).find(is_valid).unwrap_or_else(measured)
});

#[test]
fn one_emulated_path() {
    delay_loss_and_rate_are_measured_as_asked_for();
    an_application_meets_the_delay_and_the_rate();
    packets_are_conserved_and_lost_for_the_reason_asked_for();
}

fn delay_loss_and_rate_are_measured_as_asked_for() {
    let document = &ONE_PATH.document;
    assert_eq!(document.links[0].engine, "emulated");
    for run in &document.runs {
        let measured = link(run, "lte").measured.as_ref().unwrap();
        for (delay, loss) in [
            (measured.forward_delay.unwrap(), measured.forward_loss.unwrap()),
            (measured.reverse_delay.unwrap(), measured.reverse_loss.unwrap()),
        ] {
            assert!(delay.min_ms >= 30.0, "earlier than it can be: {delay:?}");
            assert!(delay.p50_ms < 45.0, "{delay:?}");
            let spread = (0.02 * 0.98 / f64::from(delay.packets)).sqrt();
            assert!((loss - 0.02).abs() < SIGMAS * spread, "{loss} of {delay:?}");
        }
        assert!(measured.min_rtt_ms >= 60.0, "{measured:?}");
        for bps in [measured.forward_bps.unwrap(), measured.reverse_bps.unwrap()] {
            // A train whose first packets were late seems faster than its link.
            assert!((9e6..11e6).contains(&(bps as f64)), "{measured:?}");
        }
    }
}

fn an_application_meets_the_delay_and_the_rate() {
    let ping = ONE_PATH.run_of("tcp", "ping").ping.clone().unwrap();
    assert!(ping.min_ms.unwrap() >= 60.0, "{ping:?}");
    let throughput = ONE_PATH.run_of("tcp", "throughput");
    assert!(goodput(throughput) < 10.0 * 1448.0 / 1514.0, "{}", goodput(throughput));
    assert!(goodput(throughput) > 0.5, "{}", goodput(throughput));
    assert!(path(throughput, "lte").rtt_ms >= 60.0);
}

fn packets_are_conserved_and_lost_for_the_reason_asked_for() {
    let run = ONE_PATH.run_of("tcp", "throughput");
    let direction = forward(run, "lte");
    let inside = direction.offered_packets - direction.delivered_packets - dropped(&direction);
    // In flight at the end of the run: 30 ms of small packets.
    assert!(inside < 100, "{direction:?}");
    // With 2 % loss and 60 ms RTT, TCP sends some 140 packets per second, and far fewer after a timeout.
    assert!(direction.offered_packets > 100, "{direction:?}");
    let lost = direction.dropped_packets.get("loss").copied().unwrap_or_default() as f64
        / direction.offered_packets as f64;
    let spread = (0.02 * 0.98 / direction.offered_packets as f64).sqrt();
    assert!((lost - 0.02).abs() < SIGMAS * spread, "{lost} of {direction:?}");
    assert_eq!(link(run, "lte").forward_bytes, Some(direction.delivered_bytes));
    assert!(
        direction.lateness_ms.p50 <= direction.lateness_ms.p99
            && direction.lateness_ms.p99 <= direction.lateness_ms.max
    );
}

#[test]
fn tcp_and_mptcp_over_two_emulated_paths() {
    let text = format!(
        "[[path]]\nname = \"eth\"\nrate = \"10mbit\"\ndelay = \"10ms\"\n\
         [[path]]\nname = \"lte\"\nrate = \"10mbit\"\ndelay = \"15ms\"\njitter = \"2ms\"\n\
         [run]\ntransports = [\"tcp\", \"mptcp\"]\nduration = \"5s\"\n{PATIENT}[run.throughput]\nomit = \"1s\"\n"
    );
    let measured = Workplace::new().lab_run("two", &text, &["--no-calibration"]);
    let (tcp, mptcp) = (measured.run("tcp"), measured.run("mptcp"));
    assert!(mptcp.multipath.used, "{:?}", mptcp.multipath);
    assert!(goodput(tcp) < 10.0 && goodput(mptcp) < 20.0);
    assert!(goodput(mptcp) > 10.0, "{}, no more than one path can carry", goodput(mptcp));
}

/// All kinds of events on one path within nine seconds.
static EVENTS: LazyLock<Measured> = LazyLock::new(|| {
    let event = |at: &str, rest: &str| format!("[[event]]\nat = \"{at}\"\npath = \"eth\"\n{rest}\n");
    let text = [
        "[[path]]\nname = \"eth\"\nrate = \"20mbit\"\nqueue = \"100p\"\n".to_owned(),
        event("1s", "action = \"set\"\ndelay = \"50ms\"\ndirection = \"upload\""),
        event("2s", "action = \"set\"\ndelay = \"5ms\"\nrate = \"10mbit\""),
        event("3s", "action = \"outage\""),
        event("4s", "action = \"restore\""),
        event("5s", "action = \"blackhole\""),
        event("5300ms", "action = \"restore\""),
        event("6500ms", "action = \"fade\"\nduration = \"1s\"\nto = { rate = \"2mbit\" }"),
        format!(
            "[run]\ntransports = [\"tcp\"]\nduration = \"9s\"\n{PATIENT}[run.throughput]\npatience = \"20s\"\n"
        ),
    ]
    .concat();
    Workplace::new().lab_run("events", &text, &["--no-calibration", "--capture"])
});

/// The last sample of the forward direction before `t_ms`.
fn sample_at(t_ms: f64) -> &'static LinkSample {
    let mut forward = EVENTS.links.iter().filter(|sample| sample.direction == LinkDirection::Forward);
    forward.rfind(|sample| sample.t_ms <= t_ms).unwrap()
}

/// The last sample before an event is due: an event's `t_ms` is the time at which it was complete, some time after its effect.
fn sample_before(event: &Event) -> &'static LinkSample {
    sample_at(event.due_ms.unwrap() - 1.0)
}

#[test]
fn events_of_an_emulated_path() {
    events_are_carried_out_and_the_values_in_force_are_recorded();
    an_outage_holds_packets_and_a_black_hole_drops_them();
    captures_agree_with_the_kernels_counters();
}

fn events_are_carried_out_and_the_values_in_force_are_recorded() {
    let run = EVENTS.run("tcp");
    let events = EVENTS.events_of(run, EventSource::Scenario);
    let kinds: Vec<_> = events.iter().map(|event| event.kind.name()).collect();
    assert_eq!(kinds, ["set", "set", "outage", "restore", "blackhole", "restore", "fade"]);
    // The values of the previous event are in force.
    let before = |event: usize| sample_before(events[event]);
    assert_eq!(before(0).delay_ms, Some(0.0));
    assert_eq!((before(1).delay_ms, before(1).rate_bps), (Some(50.0), Some(20_000_000)));
    assert_eq!((before(2).delay_ms, before(2).rate_bps), (Some(5.0), Some(10_000_000)));
    let begun_ms = events[6].t_ms;
    let halfway = sample_at(begun_ms + 550.0);
    let faded = 10e6 - 8e6 * ((halfway.t_ms - begun_ms) / 1000.0).clamp(0.0, 1.0);
    let off = halfway.rate_bps.unwrap() as f64 - faded;
    assert!(off.abs() < 1.5e6, "{off} bit/s off {faded}: {halfway:?}");
    assert_eq!(sample_at(begun_ms + 2_400.0).rate_bps, Some(2_000_000));
}

fn an_outage_holds_packets_and_a_black_hole_drops_them() {
    let run = EVENTS.run("tcp");
    let events = EVENTS.events_of(run, EventSource::Scenario);
    // A sample is taken every 100 ms, so the last one before 150 ms have passed is within the outage.
    let (before, after) = (sample_at(events[2].t_ms + 150.0), sample_before(events[3]));
    // Packets sent before the outage may arrive 5 ms later.
    assert!(after.delivered_bytes - before.delivered_bytes < 20_000, "{before:?} {after:?}");
    assert!(after.queue_packets > 0, "{after:?}");
    let (before, after) = (sample_before(events[4]), sample_at(events[5].t_ms + 100.0));
    assert!(after.dropped_packets > before.dropped_packets, "{before:?} {after:?}");
    assert!(run.stall_ms.unwrap() >= 900.0, "{:?}", run.stall_ms);
    assert!(run.completed, "{:?}", run.error);
}

fn captures_agree_with_the_kernels_counters() {
    let run = EVENTS.run("tcp");
    let capture = run.capture.as_ref().unwrap();
    assert_eq!(capture.agrees, Some(true), "{capture:#?}");
    assert_eq!(capture.reinjected_bytes, None);
    for captured in &capture.paths {
        assert_eq!(captured.counted_bytes, Some(path(run, &captured.name).bytes_sent));
        assert!(captured.wire_bytes > 1_000_000, "{capture:#?}");
    }
    assert!(
        run.notes.iter().any(|note| note.contains("agree with the kernel's counters")),
        "{:?}",
        run.notes
    );
}

/// The order numbers of forward packets that the loss model of a run dropped, and the number of forward packets.
fn lost_packets(seed: &str, repetitions: usize) -> Vec<(Vec<usize>, usize)> {
    let text = format!(
        "[[path]]\nname = \"eth\"\nrate = \"20mbit\"\ndelay = \"2ms\"\nloss = \"10%\"\ncapture = true\n\
         [run]\ntransports = [\"tcp\"]\nrepeat = {repetitions}\n{PATIENT}\
         [run.throughput]\nbytes = \"400kB\"\npatience = \"60s\"\n"
    );
    let workplace = Workplace::new();
    let measured = workplace.lab_run("seeded", &text, &["--no-calibration", "--seed", seed]);
    let of_run = |run: &RunRecord| {
        let file = workplace.path().join(format!("result-seeded/captures/{}-eth.pcapng", run.id));
        let mut packets = read_capture(&file);
        packets.retain(|packet| packet.direction == LinkDirection::Forward);
        let lost = packets.iter().enumerate().filter(|(_, packet)| packet.fate.starts_with("dropped: loss"));
        (lost.map(|(number, _)| number).collect(), packets.len())
    };
    measured.document.runs.iter().map(of_run).collect()
}

#[test]
fn the_same_seed_loses_the_same_packets_and_another_repetition_others() {
    let (first, again) = (lost_packets("7", 2), lost_packets("7", 2));
    for ((lost, count), (lost_again, count_again)) in first.iter().zip(&again) {
        // One run may have sent more packets than the other; over the common part, both lost the same.
        let both = *count.min(count_again);
        assert!(both > 100, "{both} packets");
        let so_far =
            |lost: &[usize]| lost.iter().copied().filter(|number| *number < both).collect::<Vec<_>>();
        assert_eq!(so_far(lost), so_far(lost_again));
        assert!(so_far(lost).len() > both / 20, "{} of {both}", so_far(lost).len());
    }
    assert_ne!(first[0].0[..5], first[1].0[..5]);
}

#[test]
fn a_run_whose_packets_left_later_than_is_tolerated_is_not_valid() {
    let text = "[[path]]\nname = \"eth\"\ndelay = \"5ms\"\n[run]\ntransports = [\"tcp\"]\npattern = \"ping\"\n\
                lateness_tolerance = \"0s\"\n";
    let measured = Workplace::new().lab_run("late", text, &["--no-calibration"]).expect(1);
    let run = &measured.document.runs[0];
    assert!(!run.valid && run.completed, "{run:#?}");
    assert!(run.invalid_because[0].starts_with("link eth: one packet in a hundred left"), "{run:#?}");
}

#[test]
fn interfaces_go_down_and_up_on_emulated_links_as_on_others() {
    let text = format!(
        "[[path]]\nname = \"eth\"\nrate = \"10mbit\"\ndelay = \"5ms\"\n\
         [[path]]\nname = \"wlan\"\nrate = \"10mbit\"\ndelay = \"5ms\"\n\
         [[event]]\nat = \"2s\"\npath = \"wlan\"\naction = \"down\"\n\
         [[event]]\nat = \"3s\"\npath = \"wlan\"\naction = \"up\"\n\
         [[event]]\nat = \"5s\"\npath = \"eth\"\naction = \"remove-address\"\n\
         [[event]]\nat = \"6s\"\npath = \"eth\"\naction = \"add-address\"\n\
         [[event]]\nat = \"6500ms\"\npath = \"eth\"\naction = \"set\"\nmtu = 1400\n\
         [run]\ntransports = [\"mptcp\", \"mpquic\"]\nduration = \"8s\"\n{PATIENT}"
    );
    for label in ["mptcp", "mpquic"] {
        let text = text.replace("\"mptcp\", \"mpquic\"", &format!("\"{label}\""));
        // A change of an address waits for the kernel's RTNL lock, for seconds while other tests delete namespaces.
        let phases = (0..3).find_map(|_| {
            let measured = Workplace::new().lab_run("gone", &text, &["--no-calibration"]);
            let run = measured.run(label);
            assert!(run.completed && run.multipath.used, "{run:#?}");
            let long = |name: &str| {
                let found = run.phases.iter().find(|phase| phase.name == name)?;
                (found.to_ms - found.from_ms > 500.0).then(|| found.clone())
            };
            Some([long("down wlan")?, long("remove-address eth")?])
        });
        let [down, removed] = phases.expect("events on time in one of three runs");
        let share = |phase: &Phase| phase.shares.get("wlan").copied().unwrap_or_default();
        assert!(share(&down) < 0.2, "{label}: {down:?}");
        assert!(share(&removed) > 0.8, "{label}: {removed:?}");
    }
}

#[test]
fn both_multipath_transports_lose_no_message_when_the_wifi_fades() {
    let text = format!(
        "[[path]]\nname = \"wlan\"\nrate = \"20mbit\"\ndelay = \"3ms\"\narq = {{ retries = 7, pause = \"500us\" }}\n\
         [[path]]\nname = \"lte\"\npreset = \"lte\"\nbackup = true\n\
         [[event]]\nat = \"1s\"\npath = \"wlan\"\naction = \"fade\"\nfrom_m = 10\nto_m = 400\nduration = \"5s\"\n\
         [run]\ntransports = [\"mptcp\", \"mpquic\"]\npattern = \"interactive\"\nduration = \"9s\"\n{PATIENT}\
         [run.interactive]\nlinger = \"20s\"\n[run.quic]\nscheduler = \"backup\"\n"
    );
    let measured = Workplace::new().lab_run("fading", &text, &["--no-calibration"]);
    for label in ["mptcp", "mpquic"] {
        let run = measured.run(label);
        let delay = run.delay_ms.as_ref().unwrap();
        assert!(run.completed && delay.unacknowledged == 0, "{label}: {delay:?}");
        assert!(path(run, "lte").bytes_delivered > 0, "{label}: {:?}", run.paths);
    }
    let radio = measured.links.iter().filter(|sample| sample.link == "wlan" && sample.run.contains("mptcp"));
    let rates: Vec<u64> = radio.filter_map(|sample| sample.rate_bps).collect();
    assert!(rates.iter().min() < rates.iter().max(), "the radio got slower: {rates:?}");
}

#[test]
fn a_lab_with_emulated_links_can_be_worked_in_by_hand() {
    let workplace = Workplace::new();
    let name = format!("emulated-{}", std::process::id());
    let text = "[[path]]\nname = \"eth\"\nrate = \"10mbit\"\ndelay = \"100ms\"\n";
    let file = workplace.scenario("by-hand", text);
    workplace.run(&["lab", "up", &file, "--name", &name]).expect(0);
    // No program listens on this port: the refusal takes one round trip.
    let knock = "time -p timeout 10 bash -c 'echo > /dev/tcp/10.83.0.2/9'";
    let knocked = workplace.run(&["lab", "exec", "--lab", &name, "client", "--", "bash", "-c", knock]);
    workplace.run(&["lab", "down", &name]).expect(0);
    assert_eq!(knocked.code, Some(1), "refused, not timed out: {knocked:#?}");
    let real = knocked.stderr.lines().find_map(|line| line.strip_prefix("real ")).unwrap();
    assert!(real.trim().parse::<f64>().unwrap() >= 0.2, "{knocked:#?}");
}

#[test]
fn without_tun_devices_the_remedy_is_named() {
    let workplace = Workplace::new();
    let file = workplace.scenario("nowhere", "[[path]]\nname = \"eth\"\ndelay = \"5ms\"\n");
    let hide = "mount -t tmpfs none /dev/net && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", hide, "sh"]).arg(binary());
    workplace.prepare(command.args(["lab", "run", &file, "--out", "nothing"]));
    finish(&mut command).expect(7).reports(&["link `eth`", "/dev/net/tun is missing", "modprobe tun"]);
    assert!(!workplace.path().join("nothing").exists(), "no trace of it stays");
}

/// Regression: setting the jitter set the delay to the fade's end value, and a second fade ended the first.
#[test]
fn events_leave_the_fades_of_other_keys_alone() {
    let text = format!(
        "[[path]]\nname = \"lte\"\nrate = \"10mbit\"\ndelay = \"20ms\"\nqueue_discipline = \"codel\"\n\
         [run]\ntransports = [\"tcp\"]\nduration = \"4s\"\n{PATIENT}\
         [[event]]\nat = \"500ms\"\npath = \"lte\"\naction = \"fade\"\nduration = \"3s\"\nto = {{ delay = \"120ms\" }}\n\
         [[event]]\nat = \"1500ms\"\npath = \"lte\"\naction = \"set\"\njitter = \"5ms\"\nqueue_target = \"20ms\"\n\
         [[event]]\nat = \"2s\"\npath = \"lte\"\naction = \"fade\"\nduration = \"500ms\"\nto = {{ rate = \"5mbit\" }}\n"
    );
    let measured = Workplace::new().lab_run("two-fades", &text, &["--no-calibration"]).expect(0);
    let run = measured.run("tcp");
    let events = measured.events_of(run, EventSource::Scenario);
    let detail = serde_json::to_value(&events[1].detail).unwrap();
    assert_eq!(detail, serde_json::json!({ "jitter_ms": 5.0, "queue_target_ms": 20.0 }));
    let begun_ms = events[0].t_ms;
    for sample in &measured.links {
        let faded = ((sample.t_ms - begun_ms) / 3_000.0).clamp(0.0, 1.0);
        let (delay_ms, expected_ms) = (sample.delay_ms.unwrap(), 20.0 + 100.0 * faded);
        // The tolerance covers a one-second stall of the machine.
        assert!((delay_ms - expected_ms).abs() < 40.0, "{expected_ms:.0} ms expected: {sample:?}");
    }
    let last = measured.links.last().unwrap();
    assert_eq!((last.delay_ms, last.rate_bps), (Some(120.0), Some(5_000_000)), "{last:?}");
}
