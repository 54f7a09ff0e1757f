//! Starts the program, answers its calls and follows its connections until its last process has ended.

use super::arguments::ProgramArgs;
use super::collector::{Collected, ConnectionCollector};
use super::keeper;
use super::tree::{self, Tree};
use pathbench_host::seccomp::{
    FilterPlan, ProgramStartError, SeccompListener, confine_self, pass_listener, start,
};
use pathbench_program::exit::Failure;
use pathbench_program::output;
use pathbench_record::time::{SharedClock, Timestamp};
use pathbench_supervisor::{Answering, Following, SocketActivity, options};
use pathbench_transport::lock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Processes of a program that has ended successfully are left in the background after this time.
const DEPARTURE: Duration = Duration::from_millis(300);

/// Set in the program's environment: its own `pathbench run` leaves the supervision to the outer one.
const OUTER: &str = "PATHBENCH_RUN";

/// Runs the program; returns its exit code, 128 + the number of the signal that ended it.
pub(super) fn supervise(args: &ProgramArgs, clock: &SharedClock) -> Result<i32, Failure> {
    let mut collector = ConnectionCollector::new(args, clock.rfc3339())?;
    let activity = Mutex::new(SocketActivity::default());
    let following = Following::new(clock.as_ref(), &activity).map_err(Failure::failed)?;
    // Orphans would leave the tree otherwise. A failure only means that signals after the program's end do not reach them.
    let _not_adopted = pathbench_host::process::adopt_orphans();
    let mut signals = tree::signals().map_err(Failure::failed)?;
    let attending = signals.handle();
    let (child, listener) = begin(args)?;
    let started = clock.now();
    collector.start(started);
    let tree = Tree::new(child.id()).ok_or_else(|| Failure::failed("the program has no process id"))?;
    let is_over = AtomicBool::new(false);
    let release = eventfd(0, EventfdFlags::CLOEXEC).map_err(Failure::failed)?;
    let answering = Answering::new(&listener, &activity, child.id());
    let (answered, followed) = std::thread::scope(|scope| {
        scope.spawn(|| tree.attend(&mut signals));
        let answers = scope.spawn(|| {
            let answered = answering.run(Some(release.as_fd()));
            is_over.store(true, Ordering::Release);
            answered
        });
        let mut departure = Departure::default();
        let followed = following.run(&is_over, |progress| {
            if departure.is_due(progress.now, tree.status()) {
                // Fails only when the counter is full: the thread has been woken already.
                let _woken = rustix::io::write(&release, &1_u64.to_ne_bytes());
            }
            collector.take(progress, tree.status());
        });
        let answered = answers.join();
        attending.close();
        (answered, followed)
    });
    let answered = matches!(answered, Ok(Ok(()))) && release_remaining(&listener, &release, &activity);
    // A call that waits for an answer would keep the program from ending.
    drop(listener);
    if !answered {
        output::note("pathbench: the supervision ended early; later calls of socket(2) failed with ENOSYS");
    }
    // From here on a signal is for this process, which may wait for the reader of its document.
    pathbench_program::signals::on_signal(|| std::process::exit(pathbench_program::signals::INTERRUPTED));
    let status = tree.end(&attending).ok_or_else(|| Failure::failed("the program's exit status is lost"))?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    let (ledger, is_complete) = followed;
    let collected =
        Collected { duration: clock.now().duration_since(started), status, ledger: &ledger, is_complete };
    collector.finish(&lock(&activity), &collected)?;
    Ok(code)
}

/// The time when a program that has ended successfully, and has left processes in the background, is over.
#[derive(Debug, Default)]
struct Departure {
    ended: Option<Timestamp>,
}

impl Departure {
    fn is_due(&mut self, now: Timestamp, status: Option<ExitStatus>) -> bool {
        status.is_some_and(|status| status.success())
            && now.duration_since(*self.ended.get_or_insert(now)) >= DEPARTURE
    }
}

/// Hands the processes that a program has left in the background to a keeper; `false` if their calls stay unanswered.
fn release_remaining(
    listener: &SeccompListener,
    release: &OwnedFd,
    activity: &Mutex<SocketActivity>,
) -> bool {
    let mut polled = [PollFd::new(release, PollFlags::IN)];
    let is_released = poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
    if !is_released || listener.is_unused() {
        return true;
    }
    let is_confined = lock(activity).is_anything_confined();
    let passed = keeper::start(0, is_confined).and_then(|keeper| pass_listener(listener, &keeper));
    passed.is_ok()
}

/// Replaces this process by the program, so that its signals, its exit status, its messages to a service manager and the
/// processes that it leaves behind are those of the program alone. A keeper in the background answers its calls.
pub(super) fn become_program(args: &ProgramArgs) -> Result<Failure, Failure> {
    let keeper = keeper::start(std::process::id(), false).map_err(Failure::failed)?;
    let plan = FilterPlan { options: &[], deny_io_uring: args.no_io_uring };
    match confine_self(plan, &keeper) {
        Ok(()) => {}
        Err(ProgramStartError::Busy) if std::env::var_os(OUTER).is_some() => {}
        Err(error) if error.is_host_unable() => return Err(Failure::host_cannot(error)),
        Err(error) => return Err(Failure::failed(error)),
    }
    let mut command = plain(&args.command)?;
    let error = command.env(OUTER, std::process::id().to_string()).exec();
    Ok(not_started(args, &error))
}

fn begin(args: &ProgramArgs) -> Result<(Child, SeccompListener), Failure> {
    let is_inner = std::env::var_os(OUTER).is_some();
    // Inside another one the attempts would count as the program's.
    let refused = if is_inner { Ok(Vec::new()) } else { options::refused_here() };
    let refused =
        refused.map_err(|errno| Failure::host_cannot(format!("cannot create MPTCP sockets: {errno}")))?;
    let plan = FilterPlan { options: &refused, deny_io_uring: args.no_io_uring };
    match start(command(args)?, plan) {
        Ok(started) => Ok(started),
        Err(ProgramStartError::Busy) if is_inner => Err(replace(args)?),
        Err(error @ ProgramStartError::Program(_)) => Err(not_started(args, &error)),
        Err(error) if error.is_host_unable() => Err(Failure::host_cannot(error)),
        Err(error) => Err(Failure::failed(error)),
    }
}

fn command(args: &ProgramArgs) -> Result<Command, Failure> {
    let mut command = plain(&args.command)?;
    command.env(OUTER, std::process::id().to_string());
    if args.json {
        let standard_error = output::duplicate_of_stderr().map_err(Failure::failed)?;
        command.stdout(Stdio::from(standard_error));
    }
    Ok(command)
}

fn plain(words: &[OsString]) -> Result<Command, Failure> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| Failure::bad_input("which program is to run?"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Inside another `pathbench run`: replaces this process by the program, which the outer one supervises already.
fn replace(args: &ProgramArgs) -> Result<Failure, Failure> {
    output::note(
        "pathbench: this runs inside another `pathbench run`, which supervises the program and reports its connections",
    );
    let error = plain(&args.command)?.exec();
    Ok(not_started(args, &error))
}

fn not_started(args: &ProgramArgs, error: &impl std::fmt::Display) -> Failure {
    let program = args.command.first().map(|program| program.to_string_lossy().into_owned());
    Failure::bad_input(format!("cannot start `{}`: {error}", program.unwrap_or_default()))
}
