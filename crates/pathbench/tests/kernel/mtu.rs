//! `pathbench mtu` in labs with hops of all common MTUs: measured sizes, corrections, and their undo.
//!
//! Sizes are exact; the kernel's state is compared byte for byte. Times and rates have tolerance for a busy machine.

#![allow(clippy::disallowed_methods, reason = "these tests wait by the real clock")]

use crate::inside::{assert_as_before, image, set_mtu};
use crate::support;
use crate::support::measured::{Measured, goodput, path};
use crate::support::processes::signal;
use crate::support::standing::{Lab, Server};
use crate::support::{Dice, Finished, binary, captured, finish, within};
use pathbench_record::document::{MtuEvidence, MtuRecord, PathMtu, ResultDocument};
use pathbench_record::transport::Transport;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Common sizes: the minimum of IPv6, tunnels, `PPPoE`, Ethernet, FDDI, jumbo frames.
const SIZES: [u32; 6] = [1280, 1400, 1492, 1500, 4352, 9000];
/// MTU of both hosts' interfaces.
const LOCAL: u32 = 9000;
/// The server's addresses on its first path.
const SERVER_V4: &str = "10.2.0.1";
const SERVER_V6: &str = "fd00:2::1";

/// One path per size, with a hop of that MTU behind its first link.
fn hops(sizes: &[u32], keys: &str) -> String {
    let mut text = String::new();
    for (index, size) in sizes.iter().enumerate() {
        let _never_fails = write!(
            text,
            "[[path]]\nname = \"p{size}\"\nmtu = {LOCAL}\npath_mtu = {size}\n{keys}\n\
             client_address = [\"10.1.{index}.1/24\", \"fd00:1:0:{index}::1/64\"]\n\
             server_address = [\"10.2.{index}.1/24\", \"fd00:2:0:{index}::1/64\"]\n"
        );
    }
    text
}

/// Two paths with 30 Mbit/s and MTU 9000; the second has a hop with a smaller MTU that sends no ICMP.
fn black_hole(hop: u32) -> Lab {
    let text = format!(
        "[[path]]\nname = \"eth\"\nmtu = {LOCAL}\nrate = \"30mbit\"\n\
         client_address = [\"10.2.0.2/24\"]\nserver_address = [\"{SERVER_V4}/24\"]\n\
         [[path]]\nname = \"wlan\"\nmtu = {LOCAL}\nrate = \"30mbit\"\npath_mtu = {hop}\nicmp = \"off\"\n\
         client_address = [\"10.1.1.1/24\"]\nserver_address = [\"10.2.1.1/24\"]\n\
         [host.client.sysctl]\n\"net.mptcp.blackhole_timeout\" = 0\n\"net.ipv4.tcp_mtu_probing\" = 0\n"
    );
    Lab::of(&text, &[])
}

/// Commands in a lab.
trait Mtu {
    /// `pathbench mtu` in the host `client`, with its journal in the test's directory.
    fn mtu(&self, options: &[&str]) -> Command;
    /// Runs `mtu` to its end.
    fn examine(&self, options: &[&str]) -> Finished;
    /// Runs `mtu` to its end, and returns the printed document.
    fn record(&self, options: &[&str]) -> MtuRecord;
}

impl Mtu for Lab {
    fn mtu(&self, options: &[&str]) -> Command {
        let program = binary();
        let journal = self.work.path().join("journal.jsonl");
        // SIGHUP stays ignored in programs that `nohup` starts, which may include these tests.
        let start = ["env", "--default-signal=HUP", program.to_str().unwrap(), "mtu"];
        self.exec("client", &[&start[..], &["--journal", journal.to_str().unwrap()], options].concat())
    }

    fn examine(&self, options: &[&str]) -> Finished {
        finish(&mut self.mtu(options))
    }

    fn record(&self, options: &[&str]) -> MtuRecord {
        let finished = self.examine(&[options, &["--json"]].concat()).expect(0);
        let document: ResultDocument = serde_json::from_str(&finished.stdout).unwrap();
        document.mtu.unwrap_or_else(|| panic!("nothing was examined: {}", finished.stderr))
    }
}

#[track_caller]
fn of<'a>(record: &'a MtuRecord, name: &str) -> &'a PathMtu {
    record
        .paths
        .iter()
        .find(|path| path.name == name)
        .unwrap_or_else(|| panic!("no path {name}: {record:#?}"))
}

/// Finds all six sizes in both directions, over IPv4 and IPv6, in less than five seconds each.
fn finds_all_six(keys: &str, silent: bool) {
    let lab = Lab::of(&hops(&SIZES, keys), &[]);
    let _server = lab.serve(&["--open"]);
    for server in [SERVER_V4, SERVER_V6] {
        let record = lab.record(&[server]);
        assert_eq!(record.paths.len(), SIZES.len(), "{record:#?}");
        for size in SIZES {
            let path = of(&record, &format!("p{size}"));
            for direction in [&path.upload, &path.download] {
                assert_eq!(direction.mtu_bytes, Some(size), "{server}: {path:#?}");
                assert!(direction.duration_ms < 5000.0, "{server}: {path:#?}");
            }
            let evidence = if size == LOCAL {
                MtuEvidence::Interface
            } else if silent {
                MtuEvidence::DroppedSilently
            } else {
                MtuEvidence::Icmp
            };
            let evidences = [path.upload.evidence, path.download.evidence];
            assert_eq!(evidences, [Some(evidence); 2], "{server}: {path:#?}");
            let kernel = path.kernel.as_ref().unwrap_or_else(|| panic!("{path:#?}"));
            assert_eq!((kernel.interface_mtu_bytes, kernel.route_mtu_bytes), (LOCAL, None), "{path:#?}");
            assert_eq!(path.disagreements.is_empty(), size == LOCAL, "{path:#?}");
        }
        // If routers send ICMP, the kernel adapts by itself.
        let to_be_changed = record.steps.iter().filter(|step| !step.done).count();
        assert_eq!(to_be_changed, if silent { SIZES.len() - 1 } else { 0 }, "{record:#?}");
    }
}

#[test]
fn every_size_is_found_without_icmp() {
    finds_all_six("icmp = \"off\"", true);
}

#[test]
fn every_size_is_found_with_icmp() {
    finds_all_six("icmp = \"on\"", false);
}

#[test]
fn every_size_is_found_with_loss_and_without_icmp() {
    finds_all_six("icmp = \"off\"\nloss = \"2%\"\nrate = \"30mbit\"\ndelay = \"5ms\"", true);
}

#[test]
fn every_size_is_found_with_loss_and_with_icmp() {
    finds_all_six("icmp = \"on\"\nloss = \"2%\"\nrate = \"30mbit\"\ndelay = \"5ms\"", false);
}

/// `pathbench test` with MPTCP from the client, which sends for `seconds`.
fn transfer(lab: &Lab, out: &str, seconds: u32) -> Command {
    let program = binary();
    let duration = format!("{seconds}s");
    let command = [
        program.to_str().unwrap(),
        "test",
        SERVER_V4,
        "--transports",
        "mptcp",
        "--patterns",
        "throughput-upload",
        "--congestion",
        "cubic",
        "--duration",
        &duration,
        "--repeat",
        "1",
        "--no-report",
        "--out",
        out,
    ];
    lab.exec("client", &command)
}

#[test]
fn changes_before_a_connection_let_it_use_both_paths_and_are_undone_exactly() {
    let lab = black_hole(1500);
    let _server = lab.serve(&["--open"]);
    let before = image(&lab);
    let applied = lab.examine(&[SERVER_V4, "--apply"]).expect(0);
    assert!(applied.stdout.contains("ip route add 10.2.0.1 via"), "{applied:#?}");
    assert!(applied.stdout.contains("mtu 1500"), "{applied:#?}");
    assert_ne!(image(&lab), before, "nothing was changed");
    assert!(lab.work.path().join("journal.jsonl").exists());

    let finished = finish(&mut transfer(&lab, "both", 5));
    let measured = Measured::read(&lab.work.path().join("both"), finished).expect(0);
    let run = measured.run("mptcp");
    assert_eq!(run.transport, Transport::Mptcp);
    assert!(run.multipath.used, "{:?}", run.multipath);
    assert!(goodput(run) >= 50.0, "{}: {:#?}", goodput(run), run.paths);
    assert!((1400..=1460).contains(&path(run, "wlan").mss_bytes), "{:#?}", run.paths);
    assert!(path(run, "eth").mss_bytes >= 8900, "{:#?}", run.paths);

    // The kernel's state is correct now, so a second call plans no step.
    let again = lab.record(&[SERVER_V4, "--apply"]);
    assert!(again.steps.is_empty(), "{again:#?}");
    let kernel = of(&again, "wlan").kernel.clone().unwrap();
    assert_eq!(kernel.route_mtu_bytes, Some(1500));

    let undone = lab.examine(&["--undo"]).expect(0);
    assert!(undone.stdout.contains("ip route delete 10.2.0.1"), "{undone:#?}");
    assert_as_before(&lab, &before);
    assert!(!lab.work.path().join("journal.jsonl").exists(), "the journal stays");
}

#[test]
fn a_stuck_connection_goes_on_within_a_second() {
    let lab = black_hole(1500);
    let _server = lab.serve(&["--open"]);
    let before = image(&lab);
    let mut running = captured(&mut transfer(&lab, "stuck", 12));
    let mut seen = MtuRecord::default();
    let is_stuck = within(Duration::from_secs(8), || {
        seen = lab.record(&[SERVER_V4, "--path", "wlan"]);
        of(&seen, "wlan").kernel.as_ref().is_some_and(|kernel| kernel.connections.iter().any(|one| one.stuck))
    });
    assert!(is_stuck, "{seen:#?}");
    assert!(seen.steps.iter().any(|step| step.command.starts_with("ip mptcp endpoint delete")), "{seen:#?}");

    let applied = lab.record(&[SERVER_V4, "--apply"]);
    let going = applied.notes.iter().find_map(|note| {
        let (_, time) = note.split_once("carries data over this path again, after ")?;
        time.strip_suffix(" ms")?.parse::<f64>().ok()
    });
    let time_ms = going.unwrap_or_else(|| panic!("no data within a second: {applied:#?}"));
    assert!(time_ms < 1000.0, "{applied:#?}");
    let live = of(&lab.record(&[SERVER_V4, "--path", "wlan"]), "wlan").kernel.clone().unwrap();
    let going = live.connections.iter().any(|one| {
        one.transport == "mptcp"
            && !one.stuck
            && one.pmtu_bytes == 1500
            && (1400..=1460).contains(&one.mss_bytes)
    });
    assert!(going, "{live:#?}");

    let finished: Finished = running_out(&mut running);
    let measured = Measured::read(&lab.work.path().join("stuck"), finished).expect(0);
    let wlan = path(measured.run("mptcp"), "wlan");
    // At 30 Mbit/s, the remaining data takes less than two seconds.
    assert!(wlan.bytes_delivered > 5_000_000, "{wlan:#?}");
    lab.examine(&["--undo"]).expect(0);
    assert_as_before(&lab, &before);
}

fn running_out(child: &mut Child) -> Finished {
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    Finished { code: child.wait().unwrap().code(), stdout, stderr }
}

#[test]
fn an_undo_restores_the_host_after_a_kill_at_any_time() {
    let lab = black_hole(1500);
    let _server = lab.serve(&["--open"]);
    let before = image(&lab);
    let mut dice = Dice(5);
    let begun = Instant::now();
    lab.examine(&[SERVER_V4, "--apply"]).expect(0);
    let whole_ms = begun.elapsed().as_millis() as u64;
    lab.examine(&["--undo"]).expect(0);
    assert_as_before(&lab, &before);
    let mut journals = 0;
    for _ in 0..16 {
        let mut running = captured(&mut lab.mtu(&[SERVER_V4, "--apply"]));
        std::thread::sleep(Duration::from_millis(dice.below(whole_ms + 50)));
        for process in lab.work.processes() {
            let arguments = process.arguments();
            if arguments.iter().any(|word| word == "--apply") && !arguments.iter().any(|word| word == "exec")
            {
                process.kill();
            }
        }
        let _killed_or_done = running.wait().unwrap();
        journals += u32::from(lab.work.path().join("journal.jsonl").exists());
        lab.examine(&["--undo"]).expect(0);
        assert_as_before(&lab, &before);
    }
    assert!(journals > 0, "it never came so far as to change anything");
}

/// Sends a signal to the watch in this lab.
fn signal_watch(lab: &Lab, which: rustix::process::Signal) {
    for process in lab.work.processes() {
        let arguments = process.arguments();
        if arguments.iter().any(|word| word == "--watch") && !arguments.iter().any(|word| word == "exec") {
            signal(process.id, which);
        }
    }
}

#[test]
fn a_watch_follows_an_mtu_down_and_up_and_undoes_its_changes_at_its_end() {
    let lab = black_hole(4352);
    let _server = lab.serve(&["--open"]);
    let before = image(&lab);
    let options = [
        SERVER_V4,
        "--path",
        "wlan",
        "--watch",
        "--interval",
        "200ms",
        "--duration",
        "40s",
        "--apply",
        "--undo-at-end",
    ];
    let mut running = captured(&mut lab.mtu(&options));
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut all = Vec::new();
    let mut wait_for = |text: &str| {
        let found = lines.by_ref().inspect(|line| all.push(line.clone())).any(|line| line.contains(text));
        assert!(found, "`{text}` does not come: {all:#?}");
    };
    let hop = |mtu| ["wlan.near", "wlan.beyond"].map(|router| set_mtu(&lab, router, "hop", mtu));
    wait_for("mtu 4352");
    hop(1400);
    wait_for("4352 → 1400");
    wait_for("mtu 1400");
    hop(1500);
    wait_for("1400 → 1500");
    wait_for("mtu 1500");
    hop(4352);
    wait_for("1500 → 4352");
    wait_for("mtu 4352");
    // SIGINT, as from Ctrl-C, ends the watch.
    signal_watch(&lab, rustix::process::Signal::INT);
    wait_for("ip route delete 10.2.0.1");
    assert_eq!(running.wait().unwrap().code(), Some(0));
    assert_as_before(&lab, &before);
}

#[test]
fn a_watch_whose_output_is_closed_undoes_its_changes() {
    let lab = black_hole(1500);
    let _server = lab.serve(&["--open"]);
    let before = image(&lab);
    // Without a change there is no output, and therefore no broken pipe.
    let watch = ["--watch", "--interval", "500ms", "--duration", "120s", "--apply", "--undo-at-end"];
    let mut running =
        captured(&mut lab.mtu(&[&[SERVER_V4, "--path", "wlan", "--out", "kept"], &watch[..]].concat()));
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line.contains("mtu 1500")), "nothing is applied");
    assert_ne!(image(&lab), before, "nothing was changed");
    let begun = Instant::now();
    drop(lines);
    let ended = support::ended(running);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "it took {took:?}: {ended:#?}");
    assert_eq!(ended.code, Some(141), "{ended:#?}");
    assert_as_before(&lab, &before);
    assert!(!lab.work.path().join("journal.jsonl").exists(), "the journal stays");
    assert!(lab.work.path().join("kept/run.json").exists(), "the result is lost: {ended:#?}");
}

#[test]
fn a_full_disk_ends_a_watch_which_undoes_its_changes() {
    let lab = black_hole(1500);
    let _server = lab.serve(&["--open"]);
    let before = image(&lab);
    let watch = ["--watch", "--duration", "120s", "--apply", "--undo-at-end", "--quiet"];
    let mut command = lab.mtu(&[&[SERVER_V4, "--path", "wlan"], &watch[..]].concat());
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let begun = Instant::now();
    let running = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let ended = support::ended(running);
    assert!(begun.elapsed() < Duration::from_secs(30), "it took {:?}: {ended:#?}", begun.elapsed());
    let ended = ended.expect(1).reports(&["cannot write to standard output: No space left on device"]);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:#?}");
    assert_as_before(&lab, &before);
    assert!(!lab.work.path().join("journal.jsonl").exists(), "the journal stays");
}

#[test]
fn a_watch_whose_terminal_is_closed_undoes_its_changes() {
    let lab = black_hole(1500);
    let _server = lab.serve(&["--open"]);
    let before = image(&lab);
    let watch = ["--watch", "--duration", "120s", "--apply", "--undo-at-end"];
    let mut running = captured(&mut lab.mtu(&[&[SERVER_V4, "--path", "wlan"], &watch[..]].concat()));
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line.contains("mtu 1500")), "nothing is applied");
    signal_watch(&lab, rustix::process::Signal::HUP);
    let all: Vec<String> = lines.collect();
    assert_eq!(running.wait().unwrap().code(), Some(0), "{all:#?}");
    assert_as_before(&lab, &before);
}

#[test]
fn without_privilege_it_measures_and_names_the_missing_capability() {
    let lab = black_hole(1500);
    let _server = lab.serve(&["--open"]);
    let before = image(&lab);
    let program = binary();
    let journal = lab.work.path().join("journal.jsonl");
    let command = [
        "setpriv",
        "--bounding-set=-all",
        "--inh-caps=-all",
        program.to_str().unwrap(),
        "mtu",
        SERVER_V4,
        "--apply",
        "--journal",
        journal.to_str().unwrap(),
    ];
    let refused = finish(&mut lab.exec("client", &command)).expect(7).reports(&["CAP_NET_ADMIN", "--print"]);
    assert!(refused.stdout.contains("1500 up and down"), "{refused:#?}");
    assert!(refused.stdout.contains("ip route add 10.2.0.1"), "{refused:#?}");
    assert!(!journal.exists(), "nothing was changed, and there is a journal");
    assert_as_before(&lab, &before);
}

#[test]
fn commands_that_are_printed_do_the_same_as_apply() {
    let lab = black_hole(1500);
    let _server = lab.serve(&["--open"]);
    let printed = lab.examine(&[SERVER_V4, "--print"]).expect(0).stdout;
    let applied = lab.record(&[SERVER_V4, "--apply"]);
    let commands = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let done: Vec<String> = applied.steps.iter().map(|step| step.command.clone()).collect();
    assert_eq!(commands(&printed), done, "{printed}");
    assert!(!done.is_empty());
    assert!(printed.lines().any(|line| line == format!("# {}", applied.steps[0].undo)), "{printed}");
}

#[test]
fn refusing_and_unreachable_servers_have_their_own_exit_codes() {
    let lab = black_hole(1500);
    let silent =
        lab.examine(&[SERVER_V4, "--quiet"]).expect(3).reports(&["answered on no path", "eth:", "wlan:"]);
    assert_eq!(silent.stdout, "");
    let no_route =
        lab.examine(&["2001:db8::1", "--quiet"]).expect(3).reports(&["has an address and a route"]);
    assert_eq!(no_route.stdout, "");
    let program = binary();
    let program = program.to_str().unwrap();
    let key = lab.work.path().join("key");
    let key = key.to_str().unwrap();
    finish(&mut lab.exec("server", &[program, "serve", "key", key])).expect(0);
    let server: Server = lab.serve(&["--token-key", key]);
    lab.examine(&[SERVER_V4]).expect(4).reports(&["token"]);
    let token = finish(&mut lab.exec("server", &[program, "serve", "token", "--key", key])).stdout;
    lab.examine(&[SERVER_V4, "--token", token.trim()]).expect(0);
    drop(server);
}

#[test]
fn a_result_can_be_kept_and_opened() {
    let lab = black_hole(1500);
    let _server = lab.serve(&["--open"]);
    lab.examine(&[SERVER_V4, "--out", "kept"]).expect(0);
    let report = lab.work.run(&["report", "kept"]).expect(0);
    assert!(report.stdout.contains("1500 up and down"), "{report:#?}");
    assert!(lab.work.path().join("kept/report.html").exists());
}
