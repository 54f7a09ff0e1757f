//! minitopo's files become equivalent scenarios, or mistakes with a line.

use pathbench_lab::scenario::{
    EventAction, Mistake, Mistakes, Overrides, PatternPlan, ScenarioPlan, ScenarioSource, plan,
};
use pathbench_link::{JitterDistribution, LinkModel};
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

/// Model of the forward direction of `link` at its start, and after each of its changes.
fn models(plan: &ScenarioPlan, link: &str) -> Vec<LinkModel> {
    let variant = &plan.variants[0];
    let mut models = vec![variant.topology.link(link).unwrap().forward.clone()];
    for event in variant.events.iter().filter(|event| event.link == link) {
        let EventAction::Set(change) = &event.action else { panic!("{event:?}") };
        models.push(models[models.len() - 1].with_change(&change.link));
    }
    models
}

const MS: Duration = Duration::from_millis(1);

/// Regression: the flag without a loss before it was read as a loss.
#[test]
fn a_backup_flag_may_follow_the_bandwidth() {
    let text = import("topoType:MultiIf\npath_c2r_0:12,18,7,False\npath_c2r_1:21,31,8,True\n", None).unwrap();
    let topology = &planned(&text).variants[0].topology;
    for (name, backup) in [("c2r_0", false), ("c2r_1", true)] {
        let link = topology.link(name).unwrap();
        assert_eq!((link.backup, link.forward.independent_loss()), (backup, Some(0.0)), "{name}: {text}");
    }
}

#[test]
fn old_files_name_the_links_of_the_client_by_their_number() {
    let old = "topoType:MultiIf\npath_0:12,16,5,0,True\npath_1:34,46,8,2,False\nchangeNetem:yes\nnetemAt_0:7,delay 33ms loss 6%\n";
    let text = import(old, None).unwrap();
    let plan = planned(&text);
    let topology = &plan.variants[0].topology;
    for (name, delay_ms, packets, rate_bps, backup) in
        [("c2r_0", 12, 16, 5_000_000, true), ("c2r_1", 34, 46, 8_000_000, false)]
    {
        let link = topology.link(name).unwrap();
        assert_eq!(link.forward.constant_delay(), Some(MS * delay_ms));
        assert_eq!(
            (link.forward.queue, link.forward.rate_bps()),
            (QueueLimit::Packets(packets), Some(rate_bps))
        );
        assert_eq!(link.backup, backup);
    }
    let changed = &models(&plan, "c2r_0")[1];
    assert_eq!((changed.constant_delay(), changed.independent_loss()), (Some(MS * 33), Some(0.06)));
    assert!(
        text.contains("# In Mininet, the packets in the delay take places of the queue; here they do not."),
        "{text}"
    );
    assert!(!text.contains("Mbit/s pass there"), "16 packets in 12 ms are more than 5 Mbit/s: {text}");
    let slow = import("topoType:MultiIf\npath_0:100,10,5\n", None).unwrap();
    assert!(slow.contains("# At most 1.200 Mbit/s pass there."), "{slow}");
}

#[test]
fn the_limit_of_netem_caps_the_rate_or_is_said_to_have_no_effect() {
    let topology = "topoType:MultiIf\npath_c2r_0:12,40,5\nchangeNetem:yes\nnetemAt_c2r_0:3,delay 100ms limit 10\n\
                    netemAt_c2r_0:4,delay 10ms limit 50000\nnetemAt_c2r_0:5,limit 3\nnetemAt_c2r_0:6,delay 20ms rate 1mbit\n\
                    path_c2r_1:12,40,400\nnetemAt_c2r_1:3,delay 50ms\nnetemAt_c2r_1:4,delay 20ms\n";
    let text = import(topology, None).unwrap();
    let plan = planned(&text);
    let limits: Vec<u32> = models(&plan, "c2r_0").iter().map(|model| model.in_flight_limit).collect();
    assert_eq!(limits, [0, 10, 0, 0, 0]);
    let cap =
        "# netem's limit of 10 packets in the delay caps the rate at 1.211 Mbit/s in frames of 1514 bytes.";
    assert!(text.contains(cap), "{text}");
    assert!(
        text.contains("# netem's limit of 50000 packets is never reached at this rate and delay."),
        "{text}"
    );
    assert!(
        text.contains("# netem's limit of 3 packets is never reached"),
        "without a delay netem holds none: {text}"
    );
    // netem's default: 1000 packets in 50 ms are 242 Mbit/s, in 20 ms 606 Mbit/s.
    let limits: Vec<u32> = models(&plan, "c2r_1").iter().map(|model| model.in_flight_limit).collect();
    assert_eq!(limits, [0, 1_000, 0]);
    assert!(text.contains("netem's default limit of 1000 packets"), "{text}");
}

/// Regression: the queue stayed that of the path, where netem holds what waits for its rate: 1000 packets at 1 Mbit/s are
/// 12 s.
#[test]
fn what_waits_for_a_rate_of_netem_waits_within_its_limit() {
    let topology = "topoType:MultiIf\npath_c2r_0:12,40,5\nchangeNetem:yes\nnetemAt_c2r_0:3,delay 20ms rate 1mbit\n\
                    netemAt_c2r_0:4,delay 20ms rate 1mbit limit 30\nnetemAt_c2r_0:5,rate 9mbit\nnetemAt_c2r_0:6,delay 20ms\n";
    let text = import(topology, None).unwrap();
    let found = models(&planned(&text), "c2r_0");
    let queues: Vec<_> = found.iter().map(|model| (model.rate_bps().unwrap(), model.queue)).collect();
    let expected = [(5_000_000, 40), (1_000_000, 1_000), (1_000_000, 30), (5_000_000, 40), (5_000_000, 40)];
    assert_eq!(queues, expected.map(|(bps, packets)| (bps, QueueLimit::Packets(packets))), "{text}");
    assert!(text.contains("# netem's limit, 30 packets, includes those that wait for its rate."), "{text}");
}

/// Regression: a tab was a control character, and `gap` was accepted only behind `reorder`.
#[test]
fn tabs_are_blanks_and_netems_arguments_have_no_order() {
    let topology = "topoType:\tMultiIf\npath_c2r_0 :\t12, 40,\t5\t\nchangeNetem: yes\n\
                    netemAt_c2r_0:3,\tgap 4 loss random 2%\treorder 25% 50% delay 20ms\n";
    let text = import(topology, None).unwrap();
    let found = models(&planned(&text), "c2r_0");
    assert_eq!((found[1].reorder_share, found[1].reorder_correlation, found[1].reorder_gap), (0.25, 0.5, 4));
    assert_eq!((found[1].independent_loss(), found[0].queue), (Some(0.02), QueueLimit::Packets(40)));
}

#[test]
fn distributions_correlations_and_reordering_are_those_of_netem() {
    let topology = "topoType:MultiIf\npath_c2r_0:12,40,5\nchangeNetem:yes\n\
                    netemAt_c2r_0:3,delay 50ms 10ms distribution pareto\n\
                    netemAt_c2r_0:4,delay 50ms 10ms 25% loss 3% 20%\n\
                    netemAt_c2r_0:5,delay 30ms reorder 25% 50% gap 5\n\
                    netemAt_c2r_0:6,delay 2s 1s 40% reorder 10%\n\
                    netemAt_c2r_0:7,delay 9ms\n";
    let text = import(topology, None).unwrap();
    let found = models(&planned(&text), "c2r_0");
    let [pareto, correlated, reordered, slow, last] = &found[1..] else { panic!("{found:?}") };
    // (X - 1.5) * 4/3 around the delay, as in netem's table: -2/3 to 4 times the jitter.
    assert_eq!(pareto.jitter_distribution, JitterDistribution::NetemPareto);
    assert_eq!((pareto.constant_delay(), pareto.jitter, pareto.reorder), (Some(MS * 50), MS * 10, true));
    assert_eq!(correlated.jitter_distribution, JitterDistribution::Uniform);
    assert_eq!((correlated.independent_loss(), correlated.loss_correlation), (Some(0.03), 0.2));
    assert!(
        correlated.jitter_correlation.abs() < 1e-12,
        "the remainder by 20,000,000 of a 32-bit number has none"
    );
    assert!(text.contains("# netem's correlation of the jitter, 25%, has no effect"), "{text}");
    let reordering = |model: &LinkModel| (model.reorder_share, model.reorder_correlation, model.reorder_gap);
    assert_eq!(reordering(reordered), (0.25, 0.5, 5));
    assert_eq!((reordered.loss_correlation, reordered.jitter), (0.0, Duration::ZERO));
    assert_eq!((reordering(slow), slow.jitter_correlation), ((0.1, 0.0, 1), 0.4));
    assert_eq!((reordering(last), last.jitter_correlation), ((0.0, 0.0, 1), 0.0));
}

const TWO_PATHS: &str = "topoType:MultiIf\npath_c2r_0:20,20\npath_c2r_1:20,20\n";

#[test]
fn path_managers_that_open_no_path_leave_mptcp_one() {
    for (experiment, said) in [
        (
            "xpType:iperf\nkpm:default\n",
            "# kpm:default (line 2 of the experiment): the client opens no further subflow",
        ),
        ("xpType:iperf\nkpmc:default\n", "# kpmc:default"),
        (
            "xpType:iperf\nkpm:ndiffports\n",
            "The further subflows over the same pair of addresses are left out",
        ),
    ] {
        let text = import(TWO_PATHS, Some(experiment)).unwrap();
        assert!(text.contains(said), "{text}");
        let client = planned(&text).variants[0]
            .topology
            .nodes
            .iter()
            .find(|node| node.name == "client")
            .cloned()
            .unwrap();
        assert_eq!((client.mptcp.limits.subflows, client.mptcp.endpoints.len()), (0, 0), "{text}");
    }
    let paths = |experiment| {
        let text = import(TWO_PATHS, Some(experiment)).unwrap();
        let plan = planned(&text);
        let client = plan.variants[0].topology.nodes.iter().find(|node| node.name == "client").unwrap();
        (client.mptcp.limits.subflows > 0 && !client.mptcp.endpoints.is_empty(), text)
    };
    assert!(paths("xpType:iperf\nkpm:fullmesh\n").0);
    let (multipath, text) = paths("xpType:iperf\nkpmc:binder\n");
    assert!(multipath && text.contains("kpmc:binder (line 2 of the experiment) is left out"), "{text}");
    let mesh = format!("{TWO_PATHS}path_r2s_0:5,20\npath_r2s_1:5,20\n");
    let signals = |experiment| import(&mesh, experiment).unwrap().contains("flags = [\"signal\"]");
    assert!(signals(None) && !signals(Some("xpType:iperf\nkpms:default\n")));
}

#[test]
fn netcat_becomes_the_transfer_that_it_is() {
    let limited = |experiment| {
        let text = import(TWO_PATHS, Some(experiment)).unwrap();
        let PatternPlan::Throughput(throughput) = planned(&text).variants[0].run.patterns[0].clone() else {
            panic!("{text}")
        };
        (throughput.bytes, throughput.rate_bps, text)
    };
    // Defaults: 5000 blocks of 1 KiB at 400 KiB/s.
    let (bytes, rate_bps, text) = limited("xpType:ncpv\nbar\n");
    assert_eq!((bytes, rate_bps), (Some(5_120_000), Some(3_276_800)));
    assert!(text.contains("# `bar` (line 2 of the experiment) is left out"), "{text}");
    assert!(text.contains("# ncpv becomes throughput"), "{text}");
    let experiment = "xpType:ncpv\nddIBS:2k\nddCount:300\npvRateLimit:1m\nchangePv:yes\nchangePvAt:4,-L 100k\n\
                      ncClientPort_0:33400\nncClientPort_1:33500\npvZ:10\n";
    let (bytes, rate_bps, text) = limited(experiment);
    assert_eq!((bytes, rate_bps), (Some(614_400), Some(8_388_608)));
    assert!(text.contains("# changePvAt:4,-L 100k (line 6 of the experiment) is left out"), "{text}");
    assert!(text.contains("for each of 2 ports") && text.contains("# pvZ:10"), "{text}");
    let text = import(TWO_PATHS, Some("xpType:nc\nddCount:700\n")).unwrap();
    assert!(text.contains("[run.bulk]\nbytes = 716800"), "{text}");
    planned(&text);
}

#[test]
fn the_yaml_of_a_fork_has_the_same_content() {
    let yaml = "---\n# two paths\nversion: 1   # of the format\ntopology:\n  type: 'MultiIf'\n  desc: \"a # b\"\n  subnets:\n    \
                left: 10.3\n    right: \"10.4\"\n  paths:\n  - link_type: c2r\n    id: 1\n    delay_ms: 31.5\n    \
                queue_pkts: 22\n    bw_mbit: 7\n    loss_pct: 1.5\n    backup: true\n  - {}\n";
    let wrong = import(yaml, None).unwrap_err();
    assert!(in_lines(&wrong).contains("topo:18: `{}` is no part of YAML"), "{}", in_lines(&wrong));
    let yaml = yaml.replace("- {}", "-   id: 0\n      link_type: c2r\n      bw_mbit: 20\n      delay_ms: 20");
    let plan = planned(&import(&yaml, None).unwrap());
    let topology = &plan.variants[0].topology;
    let link = topology.link("c2r_1").unwrap();
    assert_eq!(
        (link.forward.constant_delay(), link.forward.rate_bps()),
        (Some(MS * 63 / 2), Some(7_000_000))
    );
    assert_eq!((link.forward.queue, link.forward.independent_loss()), (QueueLimit::Packets(22), Some(0.015)));
    assert!(link.backup);
    assert_eq!(topology.link("c2r_0").unwrap().ends[0].addresses[0].addr().to_string(), "10.3.0.1");
    let same = "topoType:MultiIf\ndesc:a # b\nleftSubnet:10.3.\nrightSubnet:10.4.\npath_c2r_1:31.5,22,7,1.5,1\npath_c2r_0:20,20";
    assert_eq!(planned(&import(same, None).unwrap()).variants[0].topology.links, topology.links);
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
    ("topoType:MultiIf\npath_x:10,10,5", "", &["topo:2: path_x: the key names no link", "path_c2r_N"]),
    ("topoType:MultiIf\npath_c2r_0:1,1\npath_0:1,1,1", "", &["topo:3: path_0: line 2 has the same link"]),
    (
        "topoType:MultiIf\npath_0:10,10,5,0,yes",
        "",
        &["the backup flag `yes` is neither 0 nor 1, neither False nor True"],
    ),
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
        "topoType:MultiIf\npath_c2r_0:1,1\nnetemAt_c2r_0:1,duplicate 1% 25%",
        "",
        &["`25%` after netem's `duplicate` cannot be imported", "delay, loss and reorder"],
    ),
    (
        "topoType:MultiIf\npath_c2r_0:1,1\nnetemAt_c2r_0:1,delay 9ms 1ms distribution paretonormal",
        "",
        &["netem's `paretonormal` cannot be imported: it is a table of a mixture", "give normal or pareto"],
    ),
    (
        "topoType:MultiIf\npath_c2r_0:1,1\nnetemAt_c2r_0:1,delay 9ms limit 0",
        "",
        &["topo:3: netemAt_c2r_0: netem drops every packet with a limit of 0", "loss 100%"],
    ),
    (
        "topoType:MultiIf\npath_c2r_0:1,1\nnetemAt_c2r_0:1,delay 9ms reorder 100%",
        "",
        &["netem would delay no packet", "a gap of 2 or more"],
    ),
    (
        "topoType:MultiIf\npath_c2r_0:1,1\nnetemAt_c2r_0:1,delay 9ms gap 5",
        "",
        &["topo:3: netemAt_c2r_0: gap without reorder means nothing"],
    ),
    (
        "topoType:MultiIf\npath_c2r_0:1,1\nnetemAt_c2r_0:1,reorder 25% 50%",
        "",
        &["without a delay netem cannot reorder"],
    ),
    (
        "topoType:MultiIf\npath_c2r_0:1,1\nnetemAt_c2r_0:1,loss 1% ecn",
        "",
        &["netem's `ecn` cannot be imported"],
    ),
    (
        "topoType:MultiIf\npath_c2r_0:1,1",
        "xpType:ncpv\npvRateLimit:fast",
        &["xp:2: pvRateLimit: `fast` is not a size"],
    ),
    (
        "topoType:MultiIf\npath_c2r_0:1,1",
        "xpType:nc\nddIBS:1g\nddCount:20",
        &["xp:3: ddCount: ddCount blocks of ddIBS bytes are 21474836480 bytes", "at most 10000000000"],
    ),
    ("version: 2\ntopology:\n  type: MultiIf", "", &["topo:1: version: `2` is not a version"]),
    (
        "topology:\n  type: MultiIf\n  paths:\n  - id: 0\n    bw_mbit: 3\n    delay: 4",
        "",
        &["topo:6: delay: paths have no such key", "topo:4: link_type: the path lacks this key", "delay_ms"],
    ),
    (
        "version: 1\ntopology: {type: MultiIf}",
        "",
        &["topo:2: `topology: {type: MultiIf}` is no part of YAML"],
    ),
    ("version: 1\ntopology:\n\ttype: MultiIf", "", &["is no part of YAML that can be imported"]),
    ("version: 1\nname: x", "", &["topo:2: name: topologies have no such key"]),
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
            r"(path_((c2r|r2s)_)?[0-3]:[0-9]{1,3}(\.[0-9]{1,2})?,([0-9]{1,3},)?[0-9]{1,3}(\.[0-9])?(,[0-9],([01]|True))?|changeNetem:yes|netemAt_(c2r_)?[0-2]:[0-9]{1,2}(\.5)?,(delay [0-9]{1,2}ms( [0-9]ms( [0-9]{1,2}%)?( distribution (pareto|normal))?)?( reorder [0-9]{1,2}%( 50%)?( gap [0-9])?)?)?( loss [0-9]{1,2}%?( 25%)?)?( rate [1-9]mbit)?( limit [0-9]{1,4})?|desc:.{0,12}|(left|right)Subnet:[0-9]{1,3}\.[0-9]{1,3}\.)",
            1..8,
        ),
        experiment in r"(xpType:(iperf|ping|msg|http|pquic|nc|ncpv|none)\n)?(foo\n)?(kpm:(default|ndiffports|x)\n)?(kpms:default\n)?(ddCount:[1-9][0-9]{0,3}\n)?(pvRateLimit:[1-9][0-9]{3}k?\n)?(iperfTime:[0-9]{1,2}\n)?(msgBytes:[0-9]{1,5}\n)?(wmem:[0-9]{1,5} [0-9]{5} [0-9]{6}\n)?(desc:.{0,5})?",
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
    fn any_yaml_ends_in_a_scenario_or_in_mistakes(
        lines in prop::collection::vec(
            r"( {0,4})(- )?(version|topology|type|paths|link_type|id|delay_ms|bw_mbit|queue_pkts|left|x):( (1|c2r|MultiIf|10.5|'a'|[\[{|&]))?( #.)?",
            0..12,
        ),
    ) {
        if let Ok(text) = import(&format!("version: 1\n{}", lines.join("\n")), None) {
            planned(&text);
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
