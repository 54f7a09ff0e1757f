//! Scenarios of measured lines: valid as written, with the measured values only, and a comment for each.

use pathbench_analysis::line::{
    DirectionEstimate, FillEstimate, IdleEstimate, LineEstimate, LineProbe, LossBasis, LossEstimate,
    QueueBasis, QueueEstimate, RateEstimate,
};
use pathbench_lab::scenario::{
    LinkPlan, Overrides, RecordedLine, RecordedLines, RecordedTraffic, ScenarioPlan, ScenarioSource, plan,
    recorded_scenario,
};
use pathbench_link::RateModel;
use pathbench_record::network::AddressFamily;
use pathbench_record::units::QueueLimit;
use std::time::Duration;

fn idle(rtt_ms: f64, above_ms: f64, lost_of_100: u32) -> IdleEstimate {
    let probe = |index: u32| LineProbe {
        at_ms: f64::from(index) * 20.0,
        rtt_ms: (index % 100 >= lost_of_100).then_some(rtt_ms + f64::from(index % 2) * above_ms),
    };
    IdleEstimate::from_probes(&(0..1_000).map(probe).collect::<Vec<_>>()).unwrap()
}

fn direction(goodput_mbps: f64, queue_ms: f64) -> DirectionEstimate {
    let basis = QueueBasis::Probes { probes: 300, loaded_rtt_ms: 30.0 + queue_ms };
    let queue = QueueEstimate { basis, queue_ms };
    let rate = RateEstimate::from_goodput(goodput_mbps, 1_492, AddressFamily::Ipv4);
    DirectionEstimate {
        rate: rate.ok_or_else(|| "nothing".to_owned()),
        queue: Ok(queue),
        loss: Err("the server takes no datagrams".to_owned()),
        congestion: Some("reno".to_owned()),
    }
}

fn line(name: &str) -> RecordedLine {
    RecordedLine {
        estimate: LineEstimate {
            name: name.to_owned(),
            is_backup: false,
            idle: Ok(idle(24.0, 4.0, 0)),
            mtu_bytes: Ok(1_492),
            upload: direction(0.44, 1_100.0),
            download: direction(5.4, 150.0),
            probe_frame_bytes: 82,
        },
        traces: Vec::new(),
    }
}

fn recorded(lines: Vec<RecordedLine>) -> RecordedLines {
    RecordedLines {
        command: "test",
        server: "server.example:4433".to_owned(),
        measured: "2026-01-02T03:04:05Z".to_owned(),
        method: "Alone.\nOne after the other.".to_owned(),
        lines,
        traffic: RecordedTraffic::Throughput,
    }
}

fn planned(text: &str) -> ScenarioPlan {
    plan(&ScenarioSource::from_text("recorded.toml", text), &Overrides::default())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn links(text: &str) -> Vec<LinkPlan> {
    planned(text).variants[0].topology.links.clone()
}

#[test]
fn measured_values_are_those_of_the_scenario() {
    let text = recorded_scenario(&recorded(vec![line("dsl"), line("lte")]));
    let links = links(&text);
    assert_eq!(links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["dsl", "lte"]);
    let (up, down) = (&links[0].forward, &links[0].reverse);
    // 5.4 Mbit/s in 1440 of 1506 bytes.
    assert_eq!(down.rate, RateModel::Constant(5_648_000));
    assert_eq!(up.rate, RateModel::Constant(460_000));
    assert_eq!(up.queue, QueueLimit::Time(Duration::from_millis(1_100)));
    assert_eq!(down.queue, QueueLimit::Time(Duration::from_millis(150)));
    // 24 ms less 1.43 and 0.12 ms.
    let delay_ms = down.constant_delay().unwrap().as_secs_f64() * 1e3;
    assert!((delay_ms - 11.23).abs() < 0.02, "{delay_ms}");
    assert_eq!((down.jitter, up.mtu_bytes), (Duration::from_millis(1), 1_492));
    assert_eq!(down.independent_loss(), Some(0.0));
    assert!(text.contains("# loss by direction: not measured: the server takes no datagrams"), "{text}");
    assert!(text.contains("# loss: not told from none: 0 of 1000 round trips"), "{text}");
    let values = text.lines().zip(text.lines().skip(1)).filter(|(_, line)| {
        ["mtu", "delay", "jitter", "rate", "queue"].iter().any(|key| line.starts_with(&format!("{key} = ")))
    });
    for (comment, value) in values {
        let key = value.split(' ').next().unwrap();
        assert!(comment.starts_with(&format!("# {key}: ")), "{comment}\n{value}");
    }
}

#[test]
fn the_comparison_in_the_comments_is_ready_to_use() {
    let text = recorded_scenario(&recorded(vec![line("dsl"), line("lte")]));
    let transports: Vec<String> =
        planned(&text).variants[0].run.labels.iter().map(ToString::to_string).collect();
    assert_eq!(transports, ["tcp@dsl", "tcp@lte", "mptcp", "mpquic"]);
    let whole = text.replace("# [matrix]", "[matrix]").replace("# \"run.", "\"run.");
    assert_eq!(planned(&whole).variants.len(), 6);
    let schedulers = text.replace("# [matrix]", "[matrix]").replace("# \"run.quic", "\"run.quic");
    assert_eq!(planned(&schedulers).variants.len(), 3);
}

#[test]
fn a_value_that_was_not_measured_is_absent_with_its_reason() {
    let mut silent = line("wlan");
    let estimate = &mut silent.estimate;
    estimate.idle = Err("0 of 500 UDP probes were answered".to_owned());
    estimate.mtu_bytes = Err("no answer".to_owned());
    estimate.upload.rate = Err("the server\nrefused".to_owned());
    estimate.upload.queue = Err("the server refused".to_owned());
    let basis = QueueBasis::Probes { probes: 300, loaded_rtt_ms: 24.4 };
    estimate.download.queue = Ok(QueueEstimate { basis, queue_ms: 0.4 });
    let text = recorded_scenario(&recorded(vec![silent]));
    for part in [
        "# delay, jitter and loss: not measured: 0 of 500 UDP probes were answered",
        "# mtu: not measured: no answer",
        "# rate: not measured: the server refused",
        "the queue never filled, so the line may have more",
        "so no queue filled",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("may be larger"), "{text}");
    let links = links(&text);
    assert_eq!(links[0].forward.rate, RateModel::Unlimited);
    assert!(links[0].forward.constant_delay().unwrap().is_zero());
}

#[test]
fn loss_is_written_with_its_interval_in_the_direction_that_has_it() {
    let mut lossy = line("wlan");
    lossy.estimate.idle = Ok(idle(24.0, 0.1, 2));
    let text = recorded_scenario(&recorded(vec![lossy.clone()]));
    let loss = links(&text)[0].forward.independent_loss().unwrap();
    assert!((1.0 - (1.0 - loss).powi(2) - 0.02).abs() < 1e-4, "{loss}");
    assert!(text.contains(" at 95 %): 20 of 1000 round trips"), "{text}");
    assert!(
        text.contains("# jitter: 0.02 ms in the mean of each direction, which hosts have themselves"),
        "{text}"
    );
    let counted = |lost| LossEstimate::from_counts(5_000, lost, LossBasis::Datagrams).unwrap();
    lossy.estimate.download.loss = Ok(counted(3));
    lossy.estimate.upload.loss = Ok(counted(100));
    let text = recorded_scenario(&recorded(vec![lossy.clone()]));
    let link = &links(&text)[0];
    assert_eq!(
        (link.forward.independent_loss(), link.reverse.independent_loss()),
        (Some(0.02), Some(0.0006))
    );
    assert!(
        text.contains(
            "# loss: 0.06 % (0.02 to 0.18 at 95 %): 3 of 5000 datagrams of this direction were lost; too few"
        ),
        "{text}"
    );
    lossy.estimate.download.loss = Ok(counted(2));
    let text = recorded_scenario(&recorded(vec![lossy]));
    assert_eq!(links(&text)[0].reverse.independent_loss(), Some(0.0));
    let bound = "# loss: not told from none: 2 of 5000 datagrams of this direction were lost: at most 0.15 %";
    assert!(text.contains(bound), "{text}");
}

#[test]
fn a_queue_that_the_sender_does_not_fill_is_a_lower_bound() {
    let mut slow = line("wlan");
    slow.estimate.download.congestion = Some("bbr".to_owned());
    let text = recorded_scenario(&recorded(vec![slow]));
    assert!(text.contains("TCP (reno)") && text.contains("TCP (bbr)"), "{text}");
    assert_eq!(text.matches("bbr does not fill a queue, so it may be larger").count(), 1, "{text}");
}

#[test]
fn values_by_datagrams_name_their_flows() {
    let fill = FillEstimate {
        offered_bps: 11e6,
        arrived_bps: 5.5e6,
        error: 0.004,
        seconds: 3.0,
        frame_bytes: 1_506,
        judged: 455,
        queued: 69.0,
        is_full: false,
    };
    let mut dsl = line("dsl");
    dsl.estimate.download.rate = RateEstimate::from_fill(&fill, 0.02).ok_or_else(String::new);
    dsl.estimate.download.queue = Ok(QueueEstimate::from_fill(&fill));
    let text = recorded_scenario(&recorded(vec![dsl]));
    // 2 % of the rate are lost behind it.
    assert_eq!(links(&text)[0].reverse.rate, RateModel::Constant(5_612_000));
    for part in [
        "# rate: 5.500 of 11.0 Mbit/s of datagrams arrived in 3.0 s, in frames of 1506 bytes (standard error 0.4 %)",
        "and 2.00 % of the rate were lost behind it",
        "# queue: 151.1 ms at the rate, the median of 455 datagrams above it",
        "it dropped few of them, so it may be larger",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn names_that_a_scenario_does_not_take_are_replaced() {
    let names = ["en p0s\"31", "en:p0s\"31", "_x", "all", "a-name-of-more-than-15"];
    let text = recorded_scenario(&recorded(names.iter().map(|name| line(name)).collect()));
    let found: Vec<String> = links(&text).iter().map(|link| link.name.clone()).collect();
    assert_eq!(found, ["en-p0s-31", "path1", "path2", "path3", "a-name-of-more-"]);
}

#[test]
fn traces_replace_the_constants() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("mine-delay.csv"), "second,delay_ms\n0,10\n1,20\n").unwrap();
    std::fs::write(directory.path().join("mine-loss.csv"), "second,loss\n0,0\n1,0.5\n").unwrap();
    let mut roaming = line("wlan");
    roaming.estimate.is_backup = true;
    roaming.traces =
        vec![("delay_trace", "mine-delay.csv".to_owned()), ("loss_trace", "mine-loss.csv".to_owned())];
    let traffic = RecordedTraffic::Interactive(Duration::from_millis(42_500));
    let text = recorded_scenario(&RecordedLines { traffic, ..recorded(vec![roaming, line("lte")]) });
    let file = directory.path().join("mine.toml").display().to_string();
    let plan = plan(&ScenarioSource::from_text(file, &text), &Overrides::default())
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    let link = &plan.variants[0].topology.links[0];
    assert_eq!((link.forward.constant_delay(), link.forward.independent_loss()), (None, None));
    assert!(text.contains("duration = \"42s\"") && text.contains("pattern = \"interactive\""), "{text}");
}
