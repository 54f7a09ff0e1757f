//! Starts the program, answers its calls and follows its connections until its last process has ended.

use super::arguments::ProgramArgs;
use super::collector::{Collected, ConnectionCollector};
use super::tree::{self, Tree};
use pathbench_host::seccomp::{FilterPlan, ProgramStartError, SeccompListener, start};
use pathbench_program::exit::Failure;
use pathbench_program::output;
use pathbench_record::time::SharedClock;
use pathbench_supervisor::{Answering, Following, SocketActivity, options};
use pathbench_transport::lock;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

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
    let answering = Answering::new(&listener, &activity, child.id());
    let (answered, followed) = std::thread::scope(|scope| {
        scope.spawn(|| tree.attend(&mut signals));
        let answers = scope.spawn(|| {
            let answered = answering.run();
            is_over.store(true, Ordering::Release);
            answered
        });
        let followed = following.run(&is_over, |progress| collector.take(progress, tree.status()));
        let answered = answers.join();
        attending.close();
        (answered, followed)
    });
    // A call that waits for an answer would keep the program from ending.
    drop(listener);
    if !matches!(answered, Ok(Ok(()))) {
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
