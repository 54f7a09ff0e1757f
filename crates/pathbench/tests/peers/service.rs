//! `pathbench run --quiet` before the command of a service, as a service manager sees it: the sender of `READY=1`
//! (Type=notify), the process of `PIDFile=` (Type=forking), and signals of `ExecReload=` to either.

#![allow(clippy::disallowed_methods, reason = "these tests wait by the real clock")]

use crate::support::processes::signal;
use crate::support::{Workplace, captured, ended, within};
use pathbench_testkit::program;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt};
use rustix::process::Signal;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pathbench_testkit::tests!(
    ["python3"] => the_main_process_reports_that_it_is_ready,
    the_process_of_the_pid_file_keeps_its_sockets_at_a_reload
);

const SOON: Duration = Duration::from_secs(20);
/// Creates a TCP socket at each SIGUSR2, as haproxy at a reload, and writes the result with its process id to the log. With
/// `fork` it is a daemon that writes its pid file; with `notify` it reports that it is ready.
const PROGRAM: &str = r"
import os, signal, socket, sys
mode, log, other = sys.argv[1:4]
def create():
    try:
        socket.socket().close()
        text = 'socket'
    except OSError as error:
        text = str(error)
    with open(log, 'a') as file:
        file.write(f'{os.getpid()} {text}\n')
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
if mode == 'fork':
    ready, written = os.pipe()
    if os.fork():
        os.read(ready, 1)
        os._exit(0)
    os.setsid()
    null = os.open('/dev/null', os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    with open(other, 'w') as file:
        file.write(str(os.getpid()))
    os.write(written, b'.')
else:
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'READY=1', other)
create()
while signal.sigwait({signal.SIGUSR2}):
    create()
";

fn run(work: &Workplace, mode: &str, log: &Path, other: &Path) -> Command {
    let mut run = work.pathbench(&["run", "--quiet", "--"]);
    run.arg(program("python3")).args(["-c", PROGRAM, mode]).arg(log).arg(other);
    run
}

fn lines(log: &Path) -> Vec<String> {
    std::fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Waits for this number of lines, and requires that each is a created socket of the process.
fn require_sockets(log: &Path, process: i32, number: usize) {
    let all = |lines: &[String]| lines.iter().all(|line| *line == format!("{process} socket"));
    assert!(within(SOON, || lines(log).len() == number), "{:?}", lines(log));
    assert!(all(&lines(log)), "of process {process}: {:?}", lines(log));
}

fn sender(socket: &UnixDatagram) -> i32 {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut text = [0; 64];
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut control, RecvFlags::empty()).unwrap();
    assert_eq!(&text[..received.bytes], b"READY=1");
    let credentials = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(credentials) => Some(credentials.pid),
        _ => None,
    });
    credentials.unwrap().as_raw_nonzero().get()
}

fn the_main_process_reports_that_it_is_ready() {
    let work = Workplace::new();
    let (log, path) = (work.path().join("log"), work.path().join("notify"));
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    sockopt::set_socket_passcred(&socket, true).unwrap();
    let mut child = captured(&mut run(&work, "notify", &log, &path));
    let main = child.id() as i32;
    assert_eq!(sender(&socket), main);
    require_sockets(&log, main, 1);
    for reload in 2..4 {
        signal(main, Signal::USR2);
        require_sockets(&log, main, reload);
    }
    signal(main, Signal::TERM);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
    assert!(within(SOON, || work.left_behind().is_empty()), "{:#?}", work.left_behind());
}

fn the_process_of_the_pid_file_keeps_its_sockets_at_a_reload() {
    let work = Workplace::new();
    let (log, pid_file) = (work.path().join("log"), work.path().join("pid"));
    // The command returns as soon as the daemon has written the file.
    ended(captured(&mut run(&work, "fork", &log, &pid_file))).expect(0);
    let daemon: i32 = std::fs::read_to_string(&pid_file).unwrap().parse().unwrap();
    require_sockets(&log, daemon, 1);
    for reload in 2..4 {
        signal(daemon, Signal::USR2);
        require_sockets(&log, daemon, reload);
    }
    signal(daemon, Signal::TERM);
    assert!(within(SOON, || work.left_behind().is_empty()), "{:#?}", work.left_behind());
}
