//! Collects the records of a supervised program: `run.json`, `connections.jsonl`, the JSON document.

use super::arguments::ProgramArgs;
use super::document::{Left, OptionCount, ProgramCount, ProgramDocument};
use super::live::ConnectionLines;
use super::summary;
use crate::client::network::{InterfaceWitness, path_manager_setup};
use crate::result::host_record;
use pathbench_host::counters::KernelCounters;
use pathbench_host::paths::HostNetwork;
use pathbench_program::exit::Failure;
use pathbench_program::output;
use pathbench_record::directory::create_empty;
use pathbench_record::document::HostRecord;
use pathbench_record::file;
use pathbench_record::network::ClientPath;
use pathbench_record::time::Timestamp;
use pathbench_supervisor::{
    ConnectionLedger, ConnectionReport, FallbackEvidence, FollowingProgress, ObservedConnection,
    ProgramSummary, SocketActivity, options,
};
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// Connections in the document; `connections.jsonl` has all.
const MOST_LISTED: usize = 1000;
/// Connections that have ended wait this long for a common reading of the host's state.
const JUDGED_EVERY: Duration = Duration::from_millis(100);
const DOCUMENT: &str = "run.json";
const CONNECTIONS: &str = "connections.jsonl";

/// The end of a supervised program.
pub(super) struct Collected<'a> {
    pub(super) duration: Duration,
    pub(super) status: ExitStatus,
    pub(super) ledger: &'a ConnectionLedger,
    pub(super) is_complete: bool,
}

/// Collects the reports of the connections while the program runs.
pub(super) struct ConnectionCollector<'a> {
    args: &'a ProgramArgs,
    host: HostRecord,
    start: Timestamp,
    counters: KernelCounters,
    witness: InterfaceWitness,
    live: ConnectionLines,
    waiting: Vec<ObservedConnection>,
    judged: Timestamp,
    summary: ProgramSummary,
    listed: Vec<ConnectionReport>,
    files: Option<Files>,
}

impl<'a> ConnectionCollector<'a> {
    /// Creates the directory before the program starts.
    pub(super) fn new(args: &'a ProgramArgs, started: String) -> Result<Self, Failure> {
        let files = args.out.as_deref().map(Files::create).transpose()?;
        Ok(Self {
            args,
            host: host_record("user", started),
            start: Timestamp::default(),
            counters: KernelCounters::read().unwrap_or_default(),
            witness: InterfaceWitness::start(),
            live: ConnectionLines::new(args.watch),
            waiting: Vec::new(),
            judged: Timestamp::default(),
            summary: ProgramSummary::default(),
            listed: Vec::new(),
            files,
        })
    }

    pub(super) fn start(&mut self, now: Timestamp) {
        (self.start, self.judged) = (now, now);
    }

    pub(super) fn take(&mut self, progress: FollowingProgress<'_>, status: Option<ExitStatus>) {
        self.live.warn_about_remaining(progress.now, status);
        self.waiting.extend(progress.ended);
        let is_due = progress.now.duration_since(self.judged) >= JUDGED_EVERY;
        if self.live.is_due(progress.now) || (is_due && !self.waiting.is_empty()) {
            let evidence = self.evidence();
            self.judge(&evidence, progress.now);
            self.live.show(&progress.live, &evidence, self.start, progress.now);
        }
    }

    fn judge(&mut self, evidence: &FallbackEvidence, now: Timestamp) {
        self.judged = now;
        for connection in std::mem::take(&mut self.waiting) {
            let report = ConnectionReport::new(&connection, evidence, self.start);
            self.summary.add(&report);
            self.live.show_ended(&report);
            if let Some(files) = &mut self.files {
                files.append(&report);
            }
            if self.listed.len() < MOST_LISTED {
                self.listed.push(report);
            }
        }
        // A line is not lost when this process is killed.
        if let Some(files) = &mut self.files
            && let Err(error) = files.connections.flush()
        {
            files.failed.get_or_insert(error);
        }
    }

    /// The state of the host; what cannot be read is absent.
    fn evidence(&self) -> FallbackEvidence {
        let network = HostNetwork::read().unwrap_or_default();
        let interfaces = network.other_interfaces(&[]);
        let links = || network.links.iter();
        let is_usable =
            |name: &str| links().any(|link| link.name == name && link.up && link.carrier && !link.loopback);
        let usable: Vec<ClientPath> =
            interfaces.iter().filter(|path| is_usable(&path.interface)).cloned().collect();
        let counters = KernelCounters::read().map(|now| KernelCounters::difference(&self.counters, &now));
        FallbackEvidence {
            setup: path_manager_setup(&usable, &network),
            without_carrier: links().filter(|link| !link.carrier).map(|link| link.name.clone()).collect(),
            carried: self.witness.carried(),
            counters: counters.unwrap_or_default(),
            interfaces: interfaces
                .iter()
                .flat_map(|path| path.addresses.iter().map(|address| (*address, path.name.clone())))
                .collect(),
        }
    }

    pub(super) fn finish(mut self, activity: &SocketActivity, end: &Collected<'_>) -> Result<(), Failure> {
        let evidence = self.evidence();
        self.judge(&evidence, self.judged);
        let files = self.files.take();
        let document = self.document(activity, end);
        if let Some(files) = files {
            files.finish(&document)?;
        }
        if self.args.json {
            return output::print_json(&document);
        }
        if !self.args.quiet {
            output::note(summary::text(&document));
        }
        Ok(())
    }

    fn document<'d>(&'d self, activity: &'d SocketActivity, end: &Collected<'_>) -> ProgramDocument<'d> {
        ProgramDocument {
            schema: "pathbench.program/1",
            command: self.args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            transport: self.args.transport.clone(),
            host: self.host.clone(),
            duration_s: end.duration.as_secs_f64(),
            exit_code: end.status.code(),
            signal: end.status.signal(),
            sockets_created: activity.sockets_created,
            sockets_unseen: activity.unseen(),
            connections_total: self.summary.connections,
            connections_multipath: self.summary.multipath,
            unseen_accepted: end.ledger.unseen_accepted,
            connections_not_followed: end.ledger.not_followed,
            refused_for_descriptors: activity.refused_for_descriptors,
            groups: self.summary.groups(),
            connections: &self.listed,
            left_on_tcp: activity
                .left_on_tcp
                .iter()
                .map(|((reason, program), sockets)| Left { reason: *reason, program, sockets: *sockets })
                .collect(),
            io_uring: activity
                .io_uring
                .iter()
                .map(|(program, calls)| ProgramCount { program, calls: *calls })
                .collect(),
            refused_options: activity
                .refused_options
                .iter()
                .map(|(option, calls)| OptionCount { option: options::name(*option), calls: *calls })
                .collect(),
            incomplete: !end.is_complete,
        }
    }
}

/// The files of a result directory.
struct Files {
    directory: PathBuf,
    connections: BufWriter<File>,
    failed: Option<io::Error>,
}

impl Files {
    fn create(directory: &Path) -> Result<Self, Failure> {
        create_empty(directory).map_err(Failure::bad_input)?;
        let file = directory.join(CONNECTIONS);
        let connections = file::create_new(&file, 0o666)
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}", file.display())))?;
        Ok(Self { directory: directory.to_owned(), connections: BufWriter::new(connections), failed: None })
    }

    fn append(&mut self, report: &ConnectionReport) {
        let written = serde_json::to_string(report)
            .map_err(io::Error::from)
            .and_then(|line| writeln!(self.connections, "{line}"));
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    fn finish(mut self, document: &ProgramDocument<'_>) -> Result<(), Failure> {
        let flushed = self.failed.map_or(Ok(()), Err).and_then(|()| self.connections.flush());
        flushed.map_err(|error| Failure::failed(format!("cannot write {CONNECTIONS}: {error}")))?;
        let text = serde_json::to_string_pretty(document).map_err(Failure::failed)?;
        output::create_file(&self.directory.join(DOCUMENT), 0o666, &(text + "\n"))
    }
}
