//! `mtu`: the MTU of each path to a server, the kernel's path-MTU state, and its correction.
//!
//! The command reads the kernel's state first, because ICMP answers to probes change it; then it probes all paths at the
//! same time, a thread each; then it compares both. `pathbench-host` plans the changes and keeps the journal.

mod diagnosis;
mod examination;
mod journal;
mod path;
mod remedy;
mod watch;

use crate::client::paths::HostNetwork;
use crate::client::server::ServerName;
use crate::clock::MonotonicClock;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::session::{OutputArguments, ServerArguments, Session};
use crate::{output, report};
use clap::Args;
use examination::Examination;
use pathbench_host::path_mtu::{PathObserver, PlannedStep};
use pathbench_record::directory::ResultWriter;
use pathbench_record::document::{MtuRecord, PathMtu};
use pathbench_record::time::Clock;
use pathbench_record::units::Span;
use remedy::Application;
use serde_json::Map;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Shorter intervals would load the network.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn mtu(args: &MtuArgs) -> Result<Exit, Failure> {
    let open = || Application::open(&journal::place(args.remedy.journal.as_deref())?);
    let Some(given) = &args.server else {
        let undone = open()?.undo(args.remedy.force);
        let printed = output::print(&undone.restored);
        return undone.ending.and(printed).map(|()| Exit::Done);
    };
    let server = ServerName::parse(given, args.connection.port).map_err(Failure::bad_input)?;
    if args.watch.interval.0 < SHORTEST_INTERVAL {
        return Err(Failure::bad_input(format!("--interval {}: at least 100ms", args.watch.interval)));
    }
    let mut application = if args.remedy.apply { Some(open()?) } else { None };
    let mut session = Session::begin("mtu", &args.output, Some(0), Map::new());
    session.document.scenario.description = format!("The MTU of each path to {server}");
    let has_place = session.has_place_for_result();
    let writer = if has_place { Some(session.create_result()?) } else { None };
    let job = Job {
        args,
        server,
        stop: Arc::clone(&session.stop),
        clock: Arc::new(MonotonicClock),
        progress: &session.progress,
    };
    let findings = job.examine(application.as_mut());
    let ending = findings.and_then(|findings| write(findings, args, writer, &mut session));
    session.finish(ending)
}

struct Job<'a> {
    args: &'a MtuArgs,
    server: ServerName,
    stop: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
    progress: &'a Progress,
}

struct Findings {
    examinations: Vec<Examination>,
    record: MtuRecord,
    /// Why planned changes were not made.
    failure: Option<Failure>,
}

impl Findings {
    /// Compares the results of the probes with the kernel's state and its connections.
    fn diagnose(&mut self, observer: &mut PathObserver, applying: bool) {
        let record = |one: &mut Examination| -> PathMtu {
            one.update_connections(observer);
            one.record(&self.record.server, applying)
        };
        self.record.paths = self.examinations.iter_mut().map(record).collect();
    }
}

impl Job<'_> {
    /// Reads the kernel's state, probes, compares, makes the changes, and shows it all.
    fn examine(&self, mut application: Option<&mut Application>) -> Result<Findings, Failure> {
        let mut observer = PathObserver::open().map_err(Failure::failed)?;
        let mut findings = self.begin(&mut observer)?;
        if self.args.watch.watch {
            watch::watch(self, &mut findings, application.as_deref_mut(), &mut observer)?;
        } else {
            self.progress.line(self.announcement(&findings.examinations));
            let report = |one: &Examination| self.progress.line(progress(one));
            let token = self.args.connection.token.as_deref();
            examination::probe_all(&mut findings.examinations, token, &self.clock, &self.stop, &report);
            findings.diagnose(&mut observer, application.is_some());
            self.correct(&mut findings, application.as_deref_mut(), &mut observer);
            self.verdict(&findings.examinations)?;
            // The result is written even where the summary cannot be.
            let shown = self.show(&findings.record);
            findings.failure = findings.failure.take().or(shown.err());
        }
        // A watch may have taken all changes back.
        if findings.record.steps.iter().any(|step| step.done)
            && let Some(application) = application
            && application.journal().exists()
        {
            let journal = application.journal().display();
            self.progress.line(format_args!(
                "the changes are in the journal {journal}; pathbench mtu --undo takes them back"
            ));
        }
        Ok(findings)
    }

    /// The paths, and the kernel's state of them.
    fn begin(&self, observer: &mut PathObserver) -> Result<Findings, Failure> {
        let servers = path::addresses(&self.server, self.args.connection.family())?;
        let network = HostNetwork::read().map_err(Failure::failed)?;
        let choice = path::choose(&network, &self.args.connection.interfaces, &servers)?;
        let examinations = choice.paths.into_iter().map(|path| Examination::begin(path, observer)).collect();
        let record =
            MtuRecord { server: self.server.to_string(), notes: choice.notes, ..MtuRecord::default() };
        Ok(Findings { examinations, record, failure: None })
    }

    /// Corrects the kernel's state, or plans the correction.
    fn correct(
        &self,
        findings: &mut Findings,
        mut application: Option<&mut Application>,
        observer: &mut PathObserver,
    ) {
        // Paths that share a route share its change.
        let mut known: Vec<PlannedStep> = Vec::new();
        let record = &mut findings.record;
        for (one, path) in findings.examinations.iter().zip(&record.paths) {
            if let Some(application) = application.as_deref_mut() {
                let corrected = application.correct(one, path, observer, &*self.clock);
                record.steps.extend(corrected.steps);
                record.notes.extend(corrected.notes);
                findings.failure = findings.failure.take().or(corrected.failure);
                continue;
            }
            match remedy::planned(one, path, observer) {
                Ok((_, plan)) => {
                    let new: Vec<PlannedStep> =
                        plan.steps.into_iter().filter(|step| !known.contains(step)).collect();
                    record.steps.extend(remedy::records(&path.name, &new, false));
                    record.notes.extend(plan.notes.iter().map(|note| format!("{}: {note}", path.name)));
                    known.extend(new);
                }
                Err(why) if path.advice.contains(&why) => {}
                Err(why) => record.notes.push(why),
            }
        }
    }

    /// An error when no path was answered.
    fn verdict(&self, examinations: &[Examination]) -> Result<(), Failure> {
        if examinations.iter().any(Examination::is_answered) {
            return Ok(());
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::failed("stopped by the user before anything was measured"));
        }
        let mut lines = vec![format!("{} answered on no path", self.server)];
        lines.extend(examinations.iter().map(progress));
        let refused = examinations.iter().any(Examination::is_refused);
        let exit = if refused { Exit::Refused } else { Exit::Unreachable };
        Err(Failure { exit, message: lines.join("\n") })
    }

    /// Prints the summary or the commands; with --json the document follows at the end.
    fn show(&self, record: &MtuRecord) -> Result<(), Failure> {
        if self.args.remedy.print {
            if record.steps.is_empty() {
                self.progress.line("the kernel needs no correction");
            }
            output::print(&remedy::script(&record.steps))
        } else if self.args.output.json {
            Ok(())
        } else {
            output::print(&pathbench_report::terminal::mtu(record, output::style()))
        }
    }

    fn announcement(&self, examinations: &[Examination]) -> String {
        let names: Vec<&str> = examinations.iter().map(|one| one.path.name.as_str()).collect();
        format!("probing {} over {}", self.server, names.join(", "))
    }
}

/// Writes the result and prints the document.
fn write(
    mut findings: Findings,
    args: &MtuArgs,
    writer: Option<ResultWriter>,
    session: &mut Session,
) -> Result<Exit, Failure> {
    session.document.mtu = Some(findings.record);
    if let Some(writer) = writer {
        let directory = writer.path().to_owned();
        writer.finish(&session.document).map_err(Failure::failed)?;
        if !args.output.no_report {
            let set = report::open(&directory)?;
            report::write(std::slice::from_ref(&set), &directory)?;
            session.progress.line(directory.join("report.html").display());
        }
    }
    if args.output.json {
        output::print_json(&session.document)?;
    }
    findings.failure.take().map_or(Ok(Exit::Done), Err)
}

/// The result of a path in one line.
fn progress(one: &Examination) -> String {
    let name = &one.path.name;
    let size = |direction: &pathbench_traffic::path_mtu::DirectionFound| match &direction.found {
        Ok(found) => format!("{} bytes", found.mtu_bytes),
        Err(why) => why.to_string(),
    };
    match &one.found {
        None => format!("{name}: not measured"),
        Some(Err(error)) => format!("{name}: {error}"),
        Some(Ok(found)) => {
            let (up, down) = (size(&found.upload), size(&found.download));
            if up == down { format!("{name}: {up}") } else { format!("{name}: up {up}, down {down}") }
        }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct MtuArgs {
    /// The server: NAME, ADDRESS or HOST:PORT (IPv6 before a port in brackets)
    #[arg(value_name = "SERVER", required_unless_present = "undo")]
    pub(super) server: Option<String>,
    #[command(flatten)]
    pub(super) connection: ServerArguments,
    #[command(flatten)]
    pub(super) remedy: RemedyArgs,
    #[command(flatten)]
    pub(super) watch: WatchArgs,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct RemedyArgs {
    /// Correct the kernel's path MTU: set the MTU of the route, and let stuck connections recover (needs `CAP_NET_ADMIN`)
    #[arg(long, conflicts_with_all = ["print", "undo"])]
    pub(super) apply: bool,
    /// Print only the commands that correct the kernel's path MTU, and the commands that undo them
    #[arg(long, conflicts_with_all = ["undo", "json", "watch"])]
    pub(super) print: bool,
    /// Undo all changes that `--apply` made since the last `--undo`, from the journal; needs no server
    #[arg(long, conflicts_with_all = ["server", "json", "watch", "interfaces"])]
    pub(super) undo: bool,
    /// Undo also changes that another program has modified since
    #[arg(long, requires = "undo", conflicts_with = "server")]
    pub(super) force: bool,
    /// File that records each change before it is made [default: mtu-journal-NAMESPACE.jsonl in
    /// /run/pathbench for root, in the user's runtime directory for others]
    #[arg(long, value_name = "FILE")]
    pub(super) journal: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct WatchArgs {
    /// Probe continuously and print every change of a path's MTU; with `--apply`, follow it. Ends with Ctrl-C
    #[arg(long)]
    pub(super) watch: bool,
    /// Time between two probes of a path
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "watch")]
    pub(super) interval: Span,
    /// End the watch after this time
    #[arg(long, value_name = "TIME", requires = "watch")]
    pub(super) duration: Option<Span>,
    /// Undo the changes when the watch ends [default: they stay, until `pathbench mtu --undo`]
    #[arg(long, requires_all = ["watch", "apply"])]
    pub(super) undo_at_end: bool,
}
