//! `mtu`: the MTU of each path to a server, what the kernel believes of it, and putting the kernel right.
//!
//! The kernel is asked first, because ICMP answers to our own probes teach it; then all paths are probed at the same time,
//! a thread each; then both are compared. What is to be changed is planned and journalled by `pathbench-host`.

use crate::client::FamilyArgs;
use crate::client::paths::HostNetwork;
use crate::client::server::ServerName;
use crate::clock::{MonotonicClock, unix_seconds};
use crate::exit::{Exit, Failure};
use crate::result::{begin_result, host_record, parent_of_results, remove_empty};
use crate::{output, report, signals};
use clap::Args;
use examination::Examination;
use pathbench_host::path_mtu::{PathObserver, PlannedStep};
use pathbench_record::calendar::rfc3339_from_unix;
use pathbench_record::directory::ResultWriter;
use pathbench_record::document::{MtuRecord, PathMtu, ResultDocument, ScenarioRecord};
use pathbench_record::time::Clock;
use pathbench_record::units::Span;
use remedy::Application;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

mod diagnosis;
mod examination;
mod journal;
mod path;
mod remedy;
mod watch;

/// Name of a result of this command.
const NAME: &str = "mtu";
/// Shorter intervals would be a burden.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn mtu(args: &MtuArgs) -> Result<Exit, Failure> {
    let journal = args.remedy.journal.as_deref();
    let Some(given) = &args.server else {
        let mut application = Application::open(&journal::place(journal)?)?;
        let undone = application.undo(args.remedy.force);
        let printed = output::print(&undone.restored);
        return undone.ending.and(printed).map(|()| Exit::Done);
    };
    let server = ServerName::parse(given, args.port).map_err(Failure::bad_input)?;
    if args.watch.interval.0 < SHORTEST_INTERVAL {
        return Err(Failure::bad_input(format!("--interval {}: at least 100ms", args.watch.interval)));
    }
    let application =
        if args.remedy.apply { Some(Application::open(&journal::place(journal)?)?) } else { None };
    let job = Job {
        args,
        server,
        stop: signals::stop_flag(),
        clock: Arc::new(MonotonicClock),
        started: rfc3339_from_unix(unix_seconds() as i64),
    };
    // Made before anything is sent, so that nobody measures and then cannot write.
    let out = args.output.out.as_deref();
    let is_wanted = out.is_some() || parent_of_results().is_some();
    let writer = is_wanted.then(|| begin_result(out, NAME, &job.started)).transpose()?;
    let directory = writer.as_ref().map(|writer| writer.path().to_owned());
    let ending = job.examine(application, writer);
    if let (Err(_), Some(directory)) = (&ending, &directory) {
        // Where nothing was measured, no trace of it stays.
        remove_empty(directory);
    }
    ending
}

/// One call of the command.
struct Job<'a> {
    args: &'a MtuArgs,
    server: ServerName,
    stop: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
    started: String,
}

/// All that is known and was done.
struct Findings {
    examinations: Vec<Examination>,
    record: MtuRecord,
    /// Why what was to be done is not done.
    failure: Option<Failure>,
}

impl Findings {
    /// Compares what the probes found with what the kernel believes and what its connections do.
    fn judge(&mut self, observer: &mut PathObserver, applying: bool) {
        let record = |one: &mut Examination| -> PathMtu {
            one.look_again(observer);
            one.record(&self.record.server, applying)
        };
        self.record.paths = self.examinations.iter_mut().map(record).collect();
    }
}

impl Job<'_> {
    /// Asks the kernel, probes, compares, puts right what is to be put right, and shows it all.
    fn examine(
        &self,
        mut application: Option<Application>,
        writer: Option<ResultWriter>,
    ) -> Result<Exit, Failure> {
        let mut observer = PathObserver::open().map_err(Failure::failed)?;
        let mut findings = self.begin(&mut observer)?;
        if self.args.watch.watch {
            watch::watch(self, &mut findings, application.as_mut(), &mut observer)?;
        } else {
            self.tell(&self.announcement(&findings.examinations));
            let tell = |one: &Examination| self.tell(&progress(one));
            let token = self.args.token.as_deref();
            examination::probe_all(&mut findings.examinations, token, &self.clock, &self.stop, &tell);
            findings.judge(&mut observer, application.is_some());
            self.treat(&mut findings, application.as_mut(), &mut observer);
            self.verdict(&findings.examinations)?;
            // What was found and done is written down even where it cannot be shown.
            let shown = self.show(&findings.record);
            findings.failure = findings.failure.take().or(shown.err());
        }
        self.finish(findings, application.as_ref(), writer)
    }

    /// The paths, and what the kernel believes of them.
    fn begin(&self, observer: &mut PathObserver) -> Result<Findings, Failure> {
        let servers = path::addresses(&self.server, self.args.family.only())?;
        let network = HostNetwork::read().map_err(Failure::failed)?;
        let choice = path::choose(&network, &self.args.paths, &servers)?;
        let examinations = choice.paths.into_iter().map(|path| Examination::begin(path, observer)).collect();
        let record =
            MtuRecord { server: self.server.to_string(), notes: choice.notes, ..MtuRecord::default() };
        Ok(Findings { examinations, record, failure: None })
    }

    /// Puts the kernel right, or says what would.
    fn treat(
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
                let treated = application.treat(one, path, observer, &*self.clock);
                record.steps.extend(treated.steps);
                record.notes.extend(treated.notes);
                findings.failure = findings.failure.take().or(treated.failure);
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
            return Err(Failure::failed("stopped by the user before anything was found"));
        }
        let mut lines = vec![format!("{} answered on no path", self.server)];
        lines.extend(examinations.iter().map(progress));
        let refused = examinations.iter().any(Examination::is_refused);
        let exit = if refused { Exit::Refused } else { Exit::Unreachable };
        Err(Failure { exit, message: lines.join("\n") })
    }

    /// The summary, the commands, or nothing where there is a document at the end.
    fn show(&self, record: &MtuRecord) -> Result<(), Failure> {
        if self.args.remedy.print {
            if record.steps.is_empty() {
                self.tell("nothing is to be put right");
            }
            output::print(&remedy::script(&record.steps))
        } else if self.args.output.json {
            Ok(())
        } else {
            output::print(&pathbench_report::terminal::mtu(record, output::style()))
        }
    }

    /// Writes the result, prints the document, and says how it ended.
    fn finish(
        &self,
        mut findings: Findings,
        application: Option<&Application>,
        writer: Option<ResultWriter>,
    ) -> Result<Exit, Failure> {
        if findings.record.steps.iter().any(|step| step.done)
            && let Some(application) = application
            // Not after a watch that took it back.
            && application.journal().exists()
        {
            self.tell(&format!(
                "what was done stands in {}; pathbench mtu --undo takes it back",
                application.journal().display()
            ));
        }
        let document = self.document(findings.record);
        if let Some(writer) = writer {
            let directory: PathBuf = writer.path().to_owned();
            writer.finish(&document).map_err(Failure::failed)?;
            self.report(&directory)?;
        }
        if self.args.output.json {
            output::print_json(&document)?;
        }
        findings.failure.take().map_or(Ok(Exit::Done), Err)
    }

    fn report(&self, directory: &Path) -> Result<(), Failure> {
        let set = report::open(directory)?;
        report::write(std::slice::from_ref(&set), directory)?;
        self.tell(&directory.join("report.html").display().to_string());
        Ok(())
    }

    fn document(&self, record: MtuRecord) -> ResultDocument {
        ResultDocument {
            scenario: ScenarioRecord {
                name: NAME.to_owned(),
                description: format!("The MTU of each path to {}", self.server),
                origin: "command line".to_owned(),
                ..ScenarioRecord::default()
            },
            host: host_record("user", self.started.clone()),
            mtu: Some(record),
            ..ResultDocument::default()
        }
    }

    fn announcement(&self, examinations: &[Examination]) -> String {
        let names: Vec<&str> = examinations.iter().map(|one| one.path.name.as_str()).collect();
        format!("probing {} by {}", self.server, names.join(", "))
    }

    /// A line of progress.
    fn tell(&self, line: &str) {
        if !self.args.output.quiet {
            output::note(line);
        }
    }
}

/// What was found of a path, in a line.
fn progress(one: &Examination) -> String {
    let name = &one.path.name;
    let size = |way: &pathbench_traffic::path_mtu::DirectionFound| match &way.found {
        Ok(found) => format!("{} bytes", found.mtu_bytes),
        Err(why) => why.to_string(),
    };
    match &one.found {
        None => format!("{name}: nothing yet"),
        Some(Err(error)) => format!("{name}: {error}"),
        Some(Ok(found)) => {
            let (up, down) = (size(&found.upload), size(&found.download));
            if up == down { format!("{name}: {up}") } else { format!("{name}: up {up}, down {down}") }
        }
    }
}

/// Which server, by which paths, and what to do about what is found.
#[derive(Debug, Clone, Args)]
pub(crate) struct MtuArgs {
    /// The server: NAME, ADDRESS or HOST:PORT (IPv6 before a port in brackets)
    #[arg(value_name = "SERVER", required_unless_present = "undo")]
    pub(super) server: Option<String>,
    /// UDP port of the server, the one at which it serves QUIC
    #[arg(long, value_name = "N", default_value_t = 4433, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: u16,
    /// What the server's operator gave you, where the server asks for it
    #[arg(long, value_name = "T", env = "PATHBENCH_TOKEN", hide_env_values = true)]
    pub(super) token: Option<String>,
    /// An interface to probe by (repeatable) [default: all that have a route to the server]
    #[arg(long = "path", value_name = "IFACE")]
    pub(super) paths: Vec<String>,
    #[command(flatten)]
    pub(super) family: FamilyArgs,
    #[command(flatten)]
    pub(super) remedy: RemedyArgs,
    #[command(flatten)]
    pub(super) watch: WatchArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// What to do about a kernel that is wrong.
#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct RemedyArgs {
    /// Put the kernel right: the route's MTU, and connections that are stuck (takes root, or `CAP_NET_ADMIN`)
    #[arg(long, conflicts_with_all = ["print", "undo"])]
    pub(super) apply: bool,
    /// Print nothing but the commands that would put the kernel right, each with the one that takes it back
    #[arg(long, conflicts_with_all = ["undo", "json", "watch"])]
    pub(super) print: bool,
    /// Take back all that `--apply` did since the last `--undo`, by the journal; no server is needed
    #[arg(long, conflicts_with_all = ["server", "json", "watch", "paths"])]
    pub(super) undo: bool,
    /// Take back also what somebody else has changed since
    #[arg(long, requires = "undo", conflicts_with = "server")]
    pub(super) force: bool,
    /// Where the changes are written down before they are made [default: mtu-journal-NAMESPACE.jsonl in
    /// /run/pathbench for root, in the user's runtime directory for others]
    #[arg(long, value_name = "FILE")]
    pub(super) journal: Option<PathBuf>,
}

/// How long to keep looking.
#[derive(Debug, Clone, Args)]
pub(crate) struct WatchArgs {
    /// Go on probing and tell every change, up or down; with `--apply`, follow it. Ends with Ctrl-C
    #[arg(long)]
    pub(super) watch: bool,
    /// From one look at a path to its next
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "watch")]
    pub(super) interval: Span,
    /// End the watch after this time
    #[arg(long, value_name = "TIME", requires = "watch")]
    pub(super) time: Option<Span>,
    /// Take back what was applied when the watch ends [default: it stays, until `pathbench mtu --undo`]
    #[arg(long, requires_all = ["watch", "apply"])]
    pub(super) undo_at_end: bool,
}

/// What is shown, and where.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// Directory of the result, new or empty, for `pathbench report` [default: mtu-DATE in `$PATHBENCH_OUT`, else none]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Print the result document as JSON instead of the summary
    #[arg(long)]
    pub(super) json: bool,
    /// No progress on stderr
    #[arg(long, short)]
    pub(super) quiet: bool,
}
