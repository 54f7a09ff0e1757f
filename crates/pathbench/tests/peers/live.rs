//! `--tui`: a screen in a terminal of tmux(1).

#![allow(clippy::disallowed_methods, reason = "these tests wait by the real clock")]

use crate::support::processes::{Process, signal};
use crate::support::standing::{Lab, SERVER};
use crate::support::{TWO_PATHS, Workplace, binary, finish, within};
use rustix::process::Signal;
use std::process::Command;
use std::time::Duration;

pathbench_testkit::tests!(["tmux"] => the_screen_follows_a_study_and_its_keys_and_restores_the_terminal, a_signal_restores_the_terminal, a_closed_terminal_ends_the_command, roam_has_the_screen_in_a_host_of_a_lab);

/// A command in a terminal of 80 × 24, and its exit code and the terminal's mode after it.
struct Pane<'a> {
    work: &'a Workplace,
}

/// Longest wait for a text on the terminal.
const SOON: Duration = Duration::from_secs(60);

impl<'a> Pane<'a> {
    fn start(work: &'a Workplace, command: &[&str]) -> Self {
        let pane = Self { work };
        let words: Vec<String> = command.iter().map(|word| format!("'{word}'")).collect();
        let script = format!(
            "{}; echo exit code $?; stty -a | grep -o ' icanon'; sleep 100",
            [&[format!("'{}'", binary().display())][..], &words].concat().join(" ")
        );
        let started = finish(&mut pane.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            "sh",
            "-c",
            &script,
        ]));
        started.expect(0);
        pane
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        self.work.prepare(&mut command);
        command.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/sh");
        command.arg("-S").arg(self.work.path().join("tmux")).args(arguments);
        command
    }

    fn text(&self) -> String {
        finish(&mut self.tmux(&["capture-pane", "-p", "-S", "-200"])).stdout
    }

    fn press(&self, key: &str) {
        finish(&mut self.tmux(&["send-keys", key])).expect(0);
    }

    /// Waits until the terminal shows all `texts`.
    #[track_caller]
    fn shows(&self, texts: &[&str]) -> String {
        let shown = within(SOON, || texts.iter().all(|text| self.text().contains(text)));
        assert!(shown, "{texts:?}:\n{}", self.text());
        self.text()
    }
}

fn the_screen_follows_a_study_and_its_keys_and_restores_the_terminal() {
    let work = Workplace::new();
    let rest = "[run]\ntransports = [\"mptcp\"]\nduration = \"10s\"\nrepeat = 3\n";
    let file = work.scenario("study", &format!("{TWO_PATHS}\n{rest}"));
    let pane = Pane::start(&work, &["lab", "run", &file, "--no-calibration", "--tui", "--out", "out"]);
    pane.shows(&["run 1 of 3: mptcp", "Mbit/s per path", "eth   ", "wlan   ", "events"]);
    pane.press("Space");
    let paused = pane.shows(&["PAUSED"]);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(pane.text(), paused);
    pane.press("Space");
    assert!(within(SOON, || !pane.text().contains("PAUSED")));
    pane.press("?");
    pane.shows(&["end the command in good order"]);
    pane.press("Escape");
    assert!(within(SOON, || !pane.text().contains("in good order")));
    pane.shows(&["1 of 3 runs done", "run 2 of 3"]);
    pane.press("1");
    pane.shows(&["run 1 of 3: mptcp throughput", "(an earlier run)"]);
    pane.press("q");
    let end = pane.shows(&["exit code 1", " icanon", "stopped by the user"]);
    assert!(!end.contains("Space pause"), "{end}");
    finish(&mut pane.tmux(&["kill-server"])).expect(0);
    assert!(work.left_behind().is_empty());
}

fn a_signal_restores_the_terminal() {
    let work = Workplace::new();
    let file =
        work.scenario("long", &format!("{TWO_PATHS}\n[run]\ntransports = [\"tcp\"]\nduration = \"1m\"\n"));
    let pane = Pane::start(&work, &["lab", "run", &file, "--no-calibration", "--tui", "--out", "out"]);
    pane.shows(&["Mbit/s per path", "eth   "]);
    let is_run = |process: &Process| process.arguments().get(1).is_some_and(|word| word == "lab");
    signal(work.processes().into_iter().find(is_run).unwrap().id, Signal::TERM);
    let end = pane.shows(&["exit code 1", " icanon"]);
    assert!(!end.contains("Space pause"), "{end}");
    finish(&mut pane.tmux(&["kill-server"])).expect(0);
}

/// Regression: the thread of the screen read a closed terminal without end, and the command never ended.
fn a_closed_terminal_ends_the_command() {
    let work = Workplace::new();
    let rest = "[run]\ntransports = [\"tcp\"]\nduration = \"5m\"\n";
    let file = work.scenario("long", &format!("{TWO_PATHS}\n{rest}"));
    let pane = Pane::start(&work, &["lab", "run", &file, "--no-calibration", "--tui", "--out", "out"]);
    pane.shows(&["Mbit/s per path", "eth   "]);
    finish(&mut pane.tmux(&["kill-server"])).expect(0);
    assert!(within(Duration::from_secs(20), || work.processes().is_empty()), "{:#?}", work.processes());
}

fn roam_has_the_screen_in_a_host_of_a_lab() {
    let lab = Lab::standing(&[]);
    let server = lab.serve(&["--open", "--max-tests-per-client", "4"]);
    let program = binary();
    let exec = ["lab", "exec", "--lab", &lab.name, "client", "--", program.to_str().unwrap(), "roam", SERVER];
    let options =
        ["--fingerprint", &server.fingerprint, "--transports", "mptcp,mpquic", "--no-report", "--tui"];
    let pane = Pane::start(&lab.work, &[&exec[..], &options].concat());
    pane.shows(&["run 2 of 2", "longest delay in each interval", "delay "]);
    pane.press("p");
    pane.shows(&["run 1 of 2", "(an earlier run)"]);
    pane.press("q");
    pane.shows(&["exit code 0", " icanon"]);
    finish(&mut pane.tmux(&["kill-server"])).expect(0);
}
