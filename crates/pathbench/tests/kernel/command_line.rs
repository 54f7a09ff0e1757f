//! The command line: accepted and rejected arguments, messages, and output streams.

use crate::support::standing::Server;
use crate::support::{QUICK, TWO_PATHS, Workplace, binary, finish};
use pathbench_record::document::ResultDocument;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const HELLO: &str = include_str!("../../../../scenarios/hello.toml");
const ESCAPE: char = '\u{1b}';

/// Each line has one mistake.
const TEN_MISTAKES: &str = r#"
description = 7
colour = "red"

[[path]]
name = "eth"
rate = "50"
delay = "1 fortnight"
mtu = 12

[[path]]
name = "eth"
bakcup = true

[[event]]
at = "3s"
path = "wlna"
action = "explode"

[run]
transports = ["tpc"]
"#;

/// The lines of the mistakes in the file; line 1 has the name.
const LINES_OF_MISTAKES: [u32; 10] = [3, 4, 8, 9, 10, 13, 14, 18, 19, 22];

/// Every file of a directory, with its content.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap()))
        .collect()
}

#[test]
fn help_names_every_command_and_the_exit_codes() {
    let work = Workplace::new();
    let help = work.run(&["--help"]).expect(0);
    for text in [
        "lab",
        "mtu",
        "report",
        "submit",
        "agent",
        "collect",
        "Exit codes",
        "6 a requested multipath transport",
    ] {
        assert!(help.stdout.contains(text), "{text}: {}", help.stdout);
    }
    assert!(!help.stdout.contains("__"), "internal commands are shown: {}", help.stdout);
    let lab = work.run(&["lab", "--help"]).expect(0);
    for command in ["run", "up", "exec", "down", "list", "show", "check"] {
        assert!(lab.stdout.lines().any(|line| line.trim_start().starts_with(command)), "{}", lab.stdout);
    }
    let version = work.run(&["--version"]).expect(0);
    assert_eq!(version.stdout, concat!("pathbench ", env!("CARGO_PKG_VERSION"), "\n"));
}

/// Regression: patterns were not counted.
#[test]
fn lab_check_counts_the_runs_that_lab_run_makes() {
    let work = Workplace::new();
    let twice =
        QUICK.replace("[\"tcp\"]", "[\"tcp\", \"quic\"]\npattern = [\"throughput\", \"ping\"]\nrepeat = 2");
    let matrix = "[matrix]\n\"path.eth.mtu\" = [1280, 1400, 1500]\n";
    let file = work.scenario("counted", &format!("{twice}{matrix}"));
    let checked = work.run(&["lab", "check", &file]).expect(0);
    assert_eq!(checked.stdout, format!("{file}: good; 3 variants, 24 runs\n"));
}

/// Regression: the second command tried to write its result where the first one's result was.
#[test]
fn pathbench_out_names_where_results_get_directories_of_their_own() {
    let work = Workplace::new();
    let file = work.scenario("quick", QUICK);
    let results = |parent: &str| {
        let mut names: Vec<String> = std::fs::read_dir(work.path().join(parent))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let run = |arguments: &[&str], parent: &str| {
        let arguments = [&["lab", "run", "--no-calibration", &file], arguments].concat();
        finish(work.pathbench(&arguments).env("PATHBENCH_OUT", parent))
    };
    for _ in 0..2 {
        run(&[], "all").expect(0);
    }
    let names = results("all");
    assert!(names.len() == 2 && names.iter().all(|name| name.starts_with("quick-20")), "{names:?}");
    for name in &names {
        assert!(work.path().join("all").join(name).join("run.json").exists(), "{name}");
    }
    // Also several scenarios of one command. `--out` is the directory itself, and an empty variable counts as unset.
    run(&[&file], "all").expect(0);
    assert_eq!(results("all").len(), 4);
    run(&["--out", "own"], "all").expect(0);
    assert!(work.path().join("own/run.json").exists());
    assert_eq!(results("all").len(), 4);
    run(&["--out", "own"], "all").expect(2).reports(&["own already holds a Pathbench result"]);
    run(&[], "").expect(0);
    assert_eq!(results("pathbench-results").len(), 1);
    let compared = ["report", "own", &format!("all/{}", names[0])];
    finish(work.pathbench(&compared).env("PATHBENCH_OUT", "all")).expect(0);
    assert!(results("all").iter().any(|name| name.starts_with("comparison-20")), "{:?}", results("all"));
    // Every measuring command checks the directory before it sends anything.
    std::fs::write(work.path().join("blocked"), "").unwrap();
    for command in ["test", "roam", "mtu"] {
        let mut command = work.pathbench(&[command, "127.0.0.1"]);
        finish(command.env("PATHBENCH_OUT", "blocked")).expect(2).reports(&["cannot create blocked/"]);
    }
}

#[test]
fn mistakes_of_mtu_are_reported_before_anything_is_sent() {
    let work = Workplace::new();
    let cases: [(&[&str], &str); 13] = [
        (&[], "<SERVER>"),
        (&["--undo", "192.0.2.1"], "cannot be used with"),
        (&["192.0.2.1", "--apply", "--print"], "cannot be used with"),
        (&["192.0.2.1", "--print", "--json"], "cannot be used with"),
        (&["192.0.2.1", "-4", "-6"], "cannot be used with"),
        (&["192.0.2.1", "--force"], "cannot be used with"),
        (&["192.0.2.1", "--interval", "2s"], "--watch"),
        (&["192.0.2.1", "--watch", "--undo-at-end"], "--apply"),
        (&["192.0.2.1", "--watch", "--interval", "1fortnight"], "1fortnight"),
        (&["192.0.2.1", "--watch", "--interval", "1ms"], "at least 100ms"),
        (&["http://192.0.2.1"], "names no server"),
        (&["127.0.0.1", "-6"], "no IPv6 address"),
        (&["127.0.0.1", "--path", "nosuch0"], "no interface `nosuch0`"),
    ];
    for (arguments, text) in cases {
        let code = if arguments == ["127.0.0.1", "-6"] { 3 } else { 2 };
        let refused = work.run(&[&["mtu"], arguments].concat()).expect(code).reports(&[text]);
        assert_eq!(refused.stdout, "", "{arguments:?}");
    }
}

#[test]
fn an_undo_without_a_journal_has_nothing_to_do_and_one_with_a_wrong_one_does_nothing() {
    let work = Workplace::new();
    let undo = ["mtu", "--undo", "--journal", "journal.jsonl"];
    work.run(&undo).expect(0).reports(&["nothing to undo"]);
    assert!(!work.path().join("journal.jsonl").exists(), "an undo leaves no journal");
    for text in ["no journal\n", "{\"journal\":{\"format\":\"pathbench.journal/9\"}}\n"] {
        std::fs::write(work.path().join("journal.jsonl"), text).unwrap();
        work.run(&undo).expect(1).reports(&["journal.jsonl"]);
        assert_eq!(std::fs::read_to_string(work.path().join("journal.jsonl")).unwrap(), text);
    }
}

#[test]
fn shipped_scenarios_are_listed_and_shown_as_they_are() {
    let work = Workplace::new();
    let list = work.run(&["lab", "list"]).expect(0).stdout;
    for name in ["hello", "stable", "failover", "blackhole", "aggregate-2x10g"] {
        let described = |line: &str| {
            let mut words = line.split_whitespace();
            words.next() == Some(name) && words.count() >= 3
        };
        assert!(list.lines().any(described), "{name} has no line: {list}");
        let shown = work.run(&["lab", "show", name]).expect(0).stdout;
        // The printed text is a valid scenario.
        let copy = format!("my-{name}.toml");
        std::fs::write(work.path().join(&copy), &shown).unwrap();
        work.run(&["lab", "check", &copy]).expect(0);
    }
    assert_eq!(work.run(&["lab", "show", "hello"]).expect(0).stdout, HELLO);
}

#[test]
fn ten_mistakes_are_reported_at_once_and_nothing_is_started() {
    let work = Workplace::new();
    let file = work.scenario("mistaken", TEN_MISTAKES);
    let before = contents(work.path());
    for command in ["run", "check", "up"] {
        let refused = work.run(&["lab", command, &file]).expect(2);
        let mut lines: Vec<u32> = refused
            .stderr
            .lines()
            .filter_map(|line| Some(line.trim_start().strip_prefix("--> ")?.split_once("mistaken.toml:")?.1))
            .map(|rest| rest.split(':').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(lines.len(), refused.stderr.matches("= help: ").count(), "{refused:#?}");
        lines.dedup();
        assert_eq!(lines, LINES_OF_MISTAKES, "{refused:#?}");
        assert_eq!(refused.stdout, "");
    }
    assert_eq!(contents(work.path()), before, "something was written");
    assert!(!work.path().join("pathbench-results").exists());
    assert!(work.processes().is_empty());
}

#[test]
fn json_is_one_document_or_none() {
    let work = Workplace::new();
    let file = work.scenario("quick", QUICK);
    let both = work.run(&["lab", "run", &file, "hello", "--json"]).expect(2).reports(&["--json", "one"]);
    assert_eq!(both.stdout, "");
    let run = work.run(&["lab", "run", &file, "--json", "--no-calibration", "--out", "out"]).expect(0);
    let printed: ResultDocument = serde_json::from_str(&run.stdout).unwrap();
    let written = std::fs::read_to_string(work.path().join("out/run.json")).unwrap();
    assert_eq!(printed, serde_json::from_str::<ResultDocument>(&written).unwrap());
    assert_eq!(printed.runs.len(), 1);
    let reported = work.run(&["report", "out", "out/run.json", "--json", "--out", "both"]).expect(0);
    let reported: Vec<ResultDocument> = serde_json::from_str(&reported.stdout).unwrap();
    assert_eq!(reported, [printed.clone(), printed]);
}

#[test]
fn a_result_is_never_overwritten() {
    let work = Workplace::new();
    let file = work.scenario("quick", QUICK);
    let run = ["lab", "run", &file, "--no-calibration", "--out", "out"];
    work.run(&run).expect(0);
    let before = contents(&work.path().join("out"));
    assert!(before.contains_key("run.json") && before.contains_key("report.html"), "{:?}", before.keys());
    work.run(&run).expect(2).reports(&["out already holds a Pathbench result", "--out"]);
    assert_eq!(contents(&work.path().join("out")), before);

    std::fs::create_dir(work.path().join("mine")).unwrap();
    std::fs::write(work.path().join("mine/letter.txt"), "dear").unwrap();
    work.run(&["lab", "run", &file, "--out", "mine"]).expect(2).reports(&["mine is not empty", "--out"]);
    work.run(&["lab", "run", &file, "--out", "mine/letter.txt"]).expect(2).reports(&["not a directory"]);
    assert_eq!(contents(&work.path().join("mine")).len(), 1);
}

#[test]
fn without_out_results_lie_side_by_side_under_their_name_and_date() {
    let work = Workplace::new();
    let file = work.scenario("quick", QUICK);
    let runs = work.run(&["lab", "run", &file, &file, "--no-calibration"]).expect(0);
    let results: Vec<_> = std::fs::read_dir(work.path().join("pathbench-results")).unwrap().collect();
    assert_eq!(results.len(), 2);
    for result in results {
        let path = result.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("quick-2"), "{name}");
        assert!(path.join("run.json").exists());
        assert!(
            runs.stdout.contains(name),
            "the summary does not name the directory {name}: {}",
            runs.stdout
        );
    }
}

#[test]
fn several_scenarios_share_a_directory() {
    let work = Workplace::new();
    let files = [work.scenario("first", QUICK), work.scenario("second", QUICK)];
    work.run(&["lab", "run", &files[0], &files[1], "--no-calibration", "--out", "out"]).expect(0);
    for name in ["first", "second"] {
        let text = std::fs::read_to_string(work.path().join("out").join(name).join("run.json")).unwrap();
        assert_eq!(serde_json::from_str::<ResultDocument>(&text).unwrap().scenario.name, name);
    }
}

#[test]
fn only_results_can_be_reported() {
    let work = Workplace::new();
    std::fs::create_dir(work.path().join("empty")).unwrap();
    std::fs::write(work.path().join("other.json"), "{\"schema\":\"else/1\"}").unwrap();
    std::fs::write(work.path().join("newer.json"), "{\"schema\":\"pathbench.result/99\"}").unwrap();
    let cases = [
        ("nowhere", "nowhere"),
        ("empty", "no Pathbench result"),
        ("other.json", "not a Pathbench result"),
        ("newer.json", "newer Pathbench"),
    ];
    for (path, text) in cases {
        let refused = work.run(&["report", path]).expect(2).reports(&[path, text]);
        assert_eq!(refused.stdout, "");
    }
    assert!(contents(&work.path().join("empty")).is_empty());
}

#[test]
fn as_root_is_for_root() {
    let work = Workplace::new();
    let file = work.scenario("quick", QUICK);
    let command = ["lab", "run", &file, "--as-root", "--json", "--no-calibration", "--out", "out"];
    // In this user namespace root is an ordinary user, too.
    let mut ordinary = Command::new("unshare");
    work.prepare(ordinary.args(["--user", "--map-user=1000"]).arg(binary()).args(command));
    finish(&mut ordinary).expect(7).reports(&["--as-root needs root", "sudo"]);
}

#[test]
fn progress_goes_to_stderr_and_can_be_silenced() {
    let work = Workplace::new();
    let file = work.scenario("quick", QUICK);
    let run = |name: &str, options: &[&str]| {
        work.run(&[&["lab", "run", &file, "--no-calibration", "--out", name], options].concat()).expect(0)
    };
    let loud = run("loud", &[]);
    assert!(loud.stderr.contains("run 1 of 1: tcp"), "{loud:#?}");
    assert!(!loud.stdout.contains("run 1 of 1"), "{loud:#?}");
    let quiet = run("quiet", &["--quiet"]);
    assert_eq!(quiet.stderr, "");
    for text in [loud.stdout, loud.stderr, quiet.stdout] {
        assert!(!text.contains(ESCAPE), "{text:?}");
    }
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let work = Workplace::new();
    let file = work.scenario("quick", QUICK);
    work.run(&["lab", "run", &file, "--no-calibration", "--out", "out"]).expect(0);
    let report = ["report", "out"];
    assert!(!work.run(&report).expect(0).stdout.contains(ESCAPE));
    let coloured = on_a_terminal(&mut work.pathbench(&report));
    assert!(coloured.contains(ESCAPE), "no colours on a terminal: {coloured:?}");
    let plain = on_a_terminal(work.pathbench(&report).env("NO_COLOR", "1"));
    assert!(plain.contains("quick") && !plain.contains(ESCAPE), "NO_COLOR is not heeded: {plain:?}");
}

/// The output of `command` on a terminal.
fn on_a_terminal(command: &mut Command) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let path = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
    let terminal = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut child = command.stdout(Stdio::from(terminal)).stderr(Stdio::null()).spawn().unwrap();
    // Drop the command's copy of the terminal; otherwise the read below would never end.
    command.stdout(Stdio::null());
    let mut printed = Vec::new();
    // A terminal whose other end is closed returns EIO instead of an end of file.
    let _ended = File::from(master).read_to_end(&mut printed);
    assert!(child.wait().unwrap().success());
    String::from_utf8(printed).unwrap()
}

#[test]
fn every_key_can_be_set_and_is_in_the_result() {
    let work = Workplace::new();
    let options =
        ["--set", "path.eth.rate=10mbit", "--transports", "tcp", "--duration", "300ms", "--seed", "9"];
    let measured = work.lab_run("set", TWO_PATHS, &[&options[..], &["--no-calibration"]].concat()).expect(0);
    let document = &measured.document;
    assert_eq!(document.seed, 9);
    assert_eq!(document.links[0].requested.forward.rate_bps, Some(10_000_000));
    assert_eq!(document.links[1].requested.forward.rate_bps, Some(20_000_000));
    assert_eq!(document.scenario.overrides["path.eth.rate"], "10mbit");
    assert_eq!(document.runs.len(), 1);
    assert!(document.scenario.text.contains("20mbit"), "the text is not the file's any more");
}

/// The directories in `pathbench-results`; none if it is missing.
fn default_results(work: &Workplace) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(work.path().join("pathbench-results"));
    entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_comparison_is_never_written_into_a_result() {
    let work = Workplace::new();
    let file = work.scenario("quick", QUICK);
    for out in ["a", "b", "c"] {
        work.run(&["lab", "run", &file, "--no-calibration", "--out", out]).expect(0);
    }
    let before = ["a", "b", "c"].map(|name| contents(&work.path().join(name)));
    let compared = work.run(&["report", "a", "b"]).expect(0);
    let again = work.run(&["report", "a", "b/run.json"]).expect(0);
    let mut places = default_results(&work);
    places.sort();
    assert_eq!(places.len(), 2, "{places:?}");
    for place in &places {
        let name = place.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("comparison-2"), "{name}");
        assert!(place.join("report.html").exists() && place.join("1-quick-comparison.svg").exists());
        let is_named = [&compared.stdout, &again.stdout]
            .into_iter()
            .any(|text| text.contains(&format!("{name}/report.html")));
        assert!(is_named, "{compared:#?} {again:#?}");
    }
    // A result of the user's choice is not overwritten either.
    for (runs, out) in [(&["a", "b"][..], "a"), (&["a", "b"], "./b/../a"), (&["a", "b"], "c"), (&["a"], "b")]
    {
        work.run(&[&["report"], runs, &["--out", out]].concat())
            .expect(2)
            .reports(&["holds a result", "--out"]);
    }
    assert!(["a", "b", "c"].map(|name| contents(&work.path().join(name))) == before, "a result was changed");
    // The report of a single result goes into the result's directory.
    work.run(&["report", "a"]).expect(0);
    work.run(&["report", "a", "--out", "a/../a"]).expect(0);
    work.run(&["report", "a", "b", "--out", "both"]).expect(0);
    work.run(&["report", "a", "b", "--out", "both"]).expect(0);
}

#[test]
fn json_of_a_report_writes_no_file() {
    let work = Workplace::new();
    let file = work.scenario("quick", QUICK);
    for out in ["a", "b"] {
        work.run(&["lab", "run", &file, "--no-calibration", "--out", out]).expect(0);
        std::fs::remove_file(work.path().join(out).join("report.html")).unwrap();
    }
    let before = ["a", "b"].map(|name| contents(&work.path().join(name)));
    for (runs, count) in [(&["a"][..], 1), (&["a", "b"], 2)] {
        let printed = work.run(&[&["report", "--json"], runs].concat()).expect(0).stdout;
        assert_eq!(serde_json::from_str::<Vec<ResultDocument>>(&printed).unwrap().len(), count);
    }
    assert!(["a", "b"].map(|name| contents(&work.path().join(name))) == before, "a file was written");
    assert!(default_results(&work).is_empty());
}

#[test]
fn results_name_the_options_that_were_given_and_no_defaults() {
    let work = Workplace::new();
    let server = Server::on_loopback(&work);
    let access = ["127.0.0.1", "--port", server.port(), "--fingerprint", &server.fingerprint, "--no-report"];
    let test = ["--transports", "tcp,quic", "--patterns", "ping", "--repeat", "1"];
    let roam = ["--transports", "tcp", "--duration", "1s", "--patience", "30s"];
    let cases = [
        ("test", &test[..], &["--transports tcp --transports quic", "--patterns ping", "--repeat 1"][..]),
        ("roam", &roam, &["--transports tcp", "--duration 1s"]),
    ];
    for (command, options, named) in cases {
        let summary = work.run(&[&[command], &access[..], options].concat()).expect(0).stdout;
        let summary = summary.replace(['\u{a0}', '\n'], " ");
        for option in named {
            assert!(summary.contains(option), "{option}: {summary}");
        }
        for wrong in
            ["--set", "--tls", "--bulk-bytes", "--scheduler", "--patience", "--fingerprint", "--port"]
        {
            assert!(!summary.contains(wrong), "{wrong}: {summary}");
        }
    }
}

#[test]
fn lab_run_writes_a_report_unless_no_report_is_given() {
    let work = Workplace::new();
    let file = work.scenario("quick", QUICK);
    let run = |options: &[&str]| {
        let fixed = ["lab", "run", &file, "--no-calibration", "--seed", "1"];
        work.run(&[&fixed, options].concat()).expect(0).stdout
    };
    let names = |directory: &str| contents(&work.path().join(directory)).into_keys().collect::<Vec<String>>();
    let is_of_report = |name: &String| {
        Path::new(name).extension().is_some_and(|extension| extension == "html" || extension == "svg")
    };
    let summary = run(&["--out", "with"]);
    assert!(summary.contains("with/report.html"), "{summary}");
    let all = names("with");
    assert!(all.iter().filter(|name| is_of_report(name)).count() > 1, "{all:?}");
    let data: Vec<String> = all.iter().filter(|name| !is_of_report(name)).cloned().collect();

    let summary = run(&["--out", "without", "--no-report"]);
    assert!(!summary.contains("report.html") && summary.contains("Results  without"), "{summary}");
    assert_eq!(names("without"), data);
    // A finished study is only shown again.
    run(&["--resume", "without", "--no-report"]);
    assert_eq!(names("without"), data);
    run(&["--resume", "shard", "--no-report", "--repeat", "2", "--shard", "2/2"]);
    assert_eq!(names("shard"), data);
    let document: ResultDocument =
        serde_json::from_str(&run(&["--out", "json", "--no-report", "--json"])).unwrap();
    assert_eq!((document.runs.len(), names("json")), (1, data));

    work.run(&["report", "without"]).expect(0);
    assert_eq!(names("without"), all);
}
