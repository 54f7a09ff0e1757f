//! `pathbench run` before the command of a service: process id, signals, daemons.

use crate::support::processes::signal;
use crate::support::site::Site;
use crate::support::{Workplace, captured, ended, within};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

fn run(work: &Workplace, options: &[&str], command: &[&str]) -> Command {
    let mut run = work.pathbench(&["run"]);
    run.args(options).arg("--").args(command);
    run
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// A service manager accepts `READY=1` of the main process, and passes sockets to it (`LISTEN_PID`).
#[test]
fn the_main_process_of_a_quiet_run_is_the_program() {
    let work = Workplace::new();
    let script = "echo $$; exec sleep 60";
    let mut child = captured(&mut run(&work, &["--quiet"], &["sh", "-c", script]));
    assert_eq!(first_line(&mut child), child.id().to_string());
    // Without a handler, as alone.
    signal(child.id() as i32, Signal::USR2);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::USR2.as_raw()));
    assert!(within(SOON, || work.left_behind().is_empty()), "{:#?}", work.left_behind());
}

/// Regression: SIGUSR2, at which haproxy reloads, ended `pathbench run`, and the program lost its sockets.
#[test]
fn every_signal_that_can_be_passed_on_reaches_the_program_and_ends_no_run() {
    let work = Workplace::new();
    for options in [&["--quiet"][..], &[]] {
        let script = "for one in HUP USR1 USR2 WINCH ALRM IO; do trap \"echo $one\" $one; done
            echo ready; while :; do sleep 0.02; done";
        let mut child = captured(&mut run(&work, options, &["bash", "-c", script]));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        let all = [
            (Signal::HUP, "HUP"),
            (Signal::USR1, "USR1"),
            (Signal::USR2, "USR2"),
            (Signal::WINCH, "WINCH"),
            (Signal::ALARM, "ALRM"),
            (Signal::IO, "IO"),
        ];
        for (number, name) in all {
            signal(child.id() as i32, number);
            assert_eq!(lines.next().as_deref(), Some(name), "{options:?}");
        }
        signal(child.id() as i32, Signal::TERM);
        let status = child.wait().unwrap();
        assert_eq!(status.signal().or_else(|| status.code().map(|code| code - 128)), Some(15), "{status}");
    }
    assert!(within(SOON, || work.left_behind().is_empty()), "{:#?}", work.left_behind());
}

/// Regression: a command that leaves a daemon and ends (Type=forking) never returned.
#[test]
fn a_command_that_daemonises_returns_and_its_daemon_keeps_its_sockets() {
    let work = Workplace::new();
    for options in [&["--quiet"][..], &[]] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // The daemon connects after the line, which follows the end of `run`.
        let script = format!(
            "(read go < fifo; exec 3<>/dev/tcp/127.0.0.1/{port}; echo connected >&3) </dev/null >/dev/null 2>&1 &
             disown; exit 0"
        );
        let fifo = work.path().join("fifo");
        let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let finished = ended(captured(&mut run(&work, options, &["bash", "-c", &script]))).expect(0);
        std::fs::write(&fifo, "go\n").unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut accepted: Option<TcpStream> = None;
        let is_connected = || {
            accepted = listener.accept().ok().map(|(stream, _)| stream);
            accepted.is_some()
        };
        assert!(within(SOON, is_connected), "{options:?}: the daemon has no socket: {finished:#?}");
        let mut stream = accepted.unwrap();
        stream.set_nonblocking(false).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "connected\n");
        std::fs::remove_file(&fifo).unwrap();
        assert!(within(SOON, || work.left_behind().is_empty()), "{:#?}", work.left_behind());
    }
}

/// Regression: `lab exec` ignored SIGTERM.
#[test]
fn lab_exec_passes_signals_on_to_its_program() {
    let site = Site::standing();
    let script = "trap 'exit 9' TERM; trap 'echo USR1' USR1; echo ready; while :; do sleep 0.02; done";
    let mut command = site.work.pathbench(&["lab", "exec", "--lab", &site.name, "client", "--"]);
    let mut child = captured(command.args(["bash", "-c", script]));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    signal(child.id() as i32, Signal::USR1);
    assert_eq!(lines.next().as_deref(), Some("USR1"));
    signal(child.id() as i32, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(9));
}
