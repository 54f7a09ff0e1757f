//! minitopo's files become equivalent scenarios, or mistakes with a line.

use pathbench_lab::scenario::{
    EventAction, Mistake, Mistakes, Overrides, PatternPlan, ScenarioPlan, ScenarioSource, plan,
};
use pathbench_minitopo::{MinitopoFile, import_minitopo};
use pathbench_record::units::QueueLimit;
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn import(topology: &str, experiment: Option<&str>) -> Result<String, Mistakes> {
    let file = |name, text: &'static str| MinitopoFile { name, content: text.as_bytes() };
    // Leaked: a test's few files.
    let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    import_minitopo(file("topo", leak(topology)), experiment.map(|text| file("xp", leak(text))))
}

fn planned(text: &str) -> ScenarioPlan {
    match plan(&ScenarioSource::from_text("imported.toml", text), &Overrides::default()) {
        Ok(plan) => plan,
        Err(mistakes) => panic!("what was imported is no scenario:\n{mistakes}\n{text}"),
    }
}

/// `tests/files/NAME.topo`, with `NAME.xp` where there is one, becomes `NAME.toml`. Written anew with
/// `PATHBENCH_WRITE_GOLDEN=1`, to be read before they are committed.
#[test]
fn files_of_the_format_become_the_scenarios_beside_them() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let mut seen = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "topo") {
            continue;
        }
        seen += 1;
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (topology, experiment) = (fs::read(&path).unwrap(), fs::read(path.with_extension("xp")).ok());
        let experiment = experiment.as_deref().map(|content| MinitopoFile { name: "xp", content });
        let text = import_minitopo(MinitopoFile { name, content: &topology }, experiment).unwrap();
        planned(&text);
        let golden = path.with_extension("toml");
        if std::env::var_os("PATHBENCH_WRITE_GOLDEN").is_some() {
            fs::write(&golden, &text).unwrap();
        }
        assert_eq!(text, fs::read_to_string(&golden).unwrap(), "{name}");
    }
    assert!(seen >= 5);
}

#[test]
fn links_say_what_the_file_says() {
    let text = import(
        "topoType:MultiIf\nleftSubnet:10.0.\nrightSubnet:10.1.\npath_c2r_0:20,80,20\npath_c2r_1:15,300,0.5,2.5,1\n\
         path_r2s_0:10,40\n",
        None,
    );
    let plan = planned(&text.unwrap());
    let topology = &plan.variants[0].topology;
    let link = topology.link("c2r_1").unwrap();
    assert_eq!(link.forward, link.reverse);
    assert_eq!(link.forward.rate_bps(), Some(500_000));
    assert_eq!(link.forward.constant_delay(), Some(Duration::from_millis(15)));
    assert_eq!(link.forward.queue, QueueLimit::Packets(300));
    assert!(link.forward.loses());
    assert!(link.backup && !topology.link("c2r_0").unwrap().backup);
    let address =
        |name: &str, end: usize| topology.link(name).unwrap().ends[end].addresses[0].addr().to_string();
    assert_eq!((address("c2r_0", 0), address("c2r_0", 1)), ("10.0.0.1".to_owned(), "10.0.0.2".to_owned()));
    assert_eq!((address("r2s_0", 0), address("r2s_0", 1)), ("10.1.0.2".to_owned(), "10.1.0.1".to_owned()));
    // 40 Mbit/s × 20 ms of round trip, in packets of 1500 bytes.
    assert_eq!(topology.link("r2s_0").unwrap().forward.queue, QueueLimit::Packets(67));
}

#[test]
fn changes_come_two_seconds_earlier_than_in_the_file_and_replace_what_was() {
    let topology = "topoType:MultiIf\npath_c2r_0:20,400,100\npath_c2r_1:15,800,100\nchangeNetem:yes\n\
                    netemAt_c2r_0:5,delay 20ms loss 100 limit 50000\nnetemAt_c2r_0:9.5,loss gemodel 1% 25%\n\
                    netemAt_c2r_1:1,delay 30ms 5ms distribution normal rate 10mbit\n";
    let text = import(topology, None).unwrap();
    let plan = planned(&text);
    let events = &plan.variants[0].events;
    let at_ms = |event: &pathbench_lab::scenario::EventPlan| event.at.since_first_byte().unwrap().as_millis();
    let times: Vec<_> = events.iter().map(|event| (event.link.as_str(), at_ms(event))).collect();
    assert_eq!(times, [("c2r_1", 0), ("c2r_0", 3_000), ("c2r_0", 7_500)]);
    assert!(events.iter().all(|event| matches!(event.action, EventAction::Set(_))));
    assert!(text.contains("at = \"7.5s\"\nlink = \"c2r_0\"\naction = \"set\"\ndelay = \"0s\""), "{text}");
    // It goes on for five seconds after the last one, to the next full second.
    assert_eq!(plan.variants[0].run.duration(), Some(Duration::from_secs(13)));
}

#[test]
fn changes_are_left_out_unless_the_file_asks_for_them() {
    let topology = "topoType:MultiIf\npath_c2r_0:20,20\nnetemAt_c2r_0:5,loss 5%\n";
    let text = import(topology, None).unwrap();
    assert!(planned(&text).variants[0].events.is_empty());
    assert!(text.contains("changeNetem is not yes"), "{text}");
}

#[test]
fn experiments_become_patterns() {
    let topology = "topoType:MultiIf\npath_c2r_0:20,20\npath_c2r_1:20,20\n";
    let table = [
        ("xpType:iperf\niperfTime:7\niperfParallel:2\nmptcpEnabled:0\n", "tcp", "throughput"),
        (
            "xpType:msg\nmsgClientSleep:0.25\nmsgNbRequests:20\nmsgBytes:10000\nsched:default\n",
            "mptcp",
            "ping",
        ),
        ("xpType:http\nfile:random\nfile_size:10240\nrmem:1000000 1000000 1000000\n", "mptcp", "bulk"),
        ("xpType:pquic\npquicSize:5120000\npquicPlugins:~/x/multipath_rr_cond.plugin\n", "mpquic", "bulk"),
        ("xpType:pquic\npquicSize:5120000\n", "quic", "bulk"),
    ];
    for (experiment, transport, pattern) in table {
        let text = import(topology, Some(experiment)).unwrap();
        let run = &planned(&text).variants[0].run;
        let labels: Vec<_> = run.labels.iter().map(ToString::to_string).collect();
        assert_eq!(labels, [transport], "{text}");
        assert_eq!(run.patterns.iter().map(PatternPlan::name).collect::<Vec<_>>(), [pattern], "{text}");
    }
}

/// File, line, key, what is wrong and what would be right.
fn in_lines(mistakes: &Mistakes) -> String {
    let line = |mistake: &Mistake| {
        let key = if mistake.key.is_empty() { String::new() } else { format!(" {}:", mistake.key) };
        let line = mistake.line.expect("in the file");
        format!("{}:{line}:{key} {}; {}\n", mistake.file, mistake.problem, mistake.remedy)
    };
    mistakes.0.iter().map(line).collect()
}

/// Topology, experiment, and the text of each mistake with its line.
const MISTAKES: &[(&str, &str, &[&str])] = &[
    ("", "", &["topo:1: topoType: the type of the topology is missing"]),
    ("topoType:MultiIf\n", "", &["topo:1: path_c2r_0: the file has no path of the client"]),
    ("topoType:ECMPLike\npath_c2r_0:1,1", "", &["topo:1: topoType: the type `ECMPLike` cannot be imported"]),
    ("topoType:MultiIf\npath_0:10,10,5", "", &["topo:2: path_0: the key names no link", "path_c2r_N"]),
    ("topoType:MultiIf\npath_c2r_0:10", "", &["topo:2: path_c2r_0: `10` has 1 values"]),
    ("topoType:MultiIf\npath_c2r_0:10,x,5", "", &["the queue `x` is not a number of packets"]),
    ("topoType:MultiIf\npath_c2r_0:10,0,5", "", &["the queue `0` is not between 1"]),
    ("topoType:MultiIf\npath_c2r_0:10,10,5,101", "", &["the loss `101` is not between 0 and 100 %"]),
    (
        "topoType:MultiIf\npath_c2r_0:1,1\npath_c2r_0:1,1",
        "",
        &["topo:3: path_c2r_0: the key stands in line 2"],
    ),
    (
        "topoType:MultiIf\npath_c2r_0:1,1\nfoo:bar",
        "",
        &["topo:3: foo: minitopo's topologies have no such key"],
    ),
    ("topoType:MultiIf\npath_c2r_0:1,1\nhello", "", &["topo:3: `hello` is no key with a value"]),
    (
        "topoType:MultiIf\npath_c2r_0:1,1\nleftSubnet:10.0",
        "",
        &["topo:3: leftSubnet: `10.0` is not the begin"],
    ),
    ("topoType:MultiIf\npath_c2r_0:1,1\nleftSubnet:10.2.", "", &["both sides of the router have the same"]),
    (
        "topoType:MultiIf\npath_c2r_0:1,1\nnetemAt_c2r_1:1,loss 1%",
        "",
        &["topo:3: netemAt_c2r_1: there is no path_c2r_1"],
    ),
    (
        "topoType:MultiIf\npath_c2r_0:1,1\nnetemAt_c2r_0:1 loss 1%",
        "",
        &["has no comma", "5,delay 20ms loss 1%"],
    ),
    (
        "topoType:MultiIf\npath_c2r_0:1,1\nnetemAt_c2r_0:1,slot 1ms",
        "",
        &["netem's `slot` cannot be imported"],
    ),
    (
        "topoType:MultiIf\npath_c2r_0:1,1\nnetemAt_c2r_0:1,loss 1% 25%",
        "",
        &["correlation (`25%`)", "gemodel"],
    ),
    (
        "topoType:MultiIf\npath_c2r_0:1,1\nnetemAt_c2r_0:9,loss 1%\nnetemAt_c2r_0:8,loss 2%",
        "",
        &["topo:4: netemAt_c2r_0: the change does not come after the one before it"],
    ),
    (
        "topoType:Foo\npath_c2r_0:a,1\nnetemAt_c2r_0:1,delay 1h",
        "",
        &["topo:1: topoType", "topo:2: path_c2r_0: the delay `a`", "topo:3: netemAt_c2r_0: `1h`"],
    ),
    ("topoType:MultiIf\npath_c2r_0:1,1", "xpType:vlc", &["xp:1: xpType: experiments of the type `vlc`"]),
    (
        "topoType:MultiIf\npath_c2r_0:1,1",
        "xpType:iperf\niperfTime:0",
        &["xp:2: iperfTime: `0` is not a number from 1"],
    ),
    ("topoType:MultiIf\npath_c2r_0:1,1", "rmem:1 2", &["xp:1: rmem: `1 2` is not three sizes"]),
];

#[test]
fn every_mistake_is_reported_with_its_line() {
    for (topology, experiment, parts) in MISTAKES {
        let experiment = (!experiment.is_empty()).then_some(*experiment);
        let message = match import(topology, experiment) {
            Ok(text) => panic!("{topology:?} was imported:\n{text}"),
            Err(mistakes) => in_lines(&mistakes),
        };
        for part in *parts {
            assert!(message.contains(part), "{topology:?}: `{message}` lacks `{part}`");
        }
    }
}

proptest! {
    #[test]
    fn whatever_can_be_imported_is_a_scenario(
        lines in prop::collection::vec(
            r"(path_(c2r|r2s)_[0-3]:[0-9]{1,3}(\.[0-9]{1,2})?,([0-9]{1,3},)?[0-9]{1,3}(\.[0-9])?(,[0-9],[01])?|changeNetem:yes|netemAt_c2r_[0-2]:[0-9]{1,2}(\.5)?,(delay [0-9]{1,2}ms( [0-9]ms)?)?( loss [0-9]{1,2}%?)?( rate [1-9]mbit)?|desc:.{0,12}|(left|right)Subnet:[0-9]{1,3}\.[0-9]{1,3}\.)",
            1..8,
        ),
        experiment in r"(xpType:(iperf|ping|msg|http|pquic|none)\n)?(iperfTime:[0-9]{1,2}\n)?(msgBytes:[0-9]{1,5}\n)?(wmem:[0-9]{1,5} [0-9]{5} [0-9]{6}\n)?(desc:.{0,5})?",
    ) {
        let topology = format!("topoType:MultiIf\n{}", lines.join("\n"));
        match import(&topology, Some(&experiment)) {
            Ok(text) => { planned(&text); }
            Err(mistakes) => for mistake in mistakes.0 {
                prop_assert!(mistake.line.is_some() && !mistake.problem.is_empty() && !mistake.remedy.is_empty());
            },
        }
    }

    #[test]
    fn any_bytes_end_in_a_scenario_or_in_mistakes(topology in prop::collection::vec(any::<u8>(), 0..80), tail in ".{0,40}") {
        let topology = [b"topoType:MultiIf\npath_c2r_0:1,1\n".as_slice(), &topology].concat();
        for experiment in [None, Some(MinitopoFile { name: "xp", content: tail.as_bytes() })] {
            if let Ok(text) = import_minitopo(MinitopoFile { name: "t", content: &topology }, experiment) {
                planned(&text);
            }
        }
    }
}
