//! The common frame of `test`, `roam` and `mtu`: interrupts, progress, the result directory and its completion.

use crate::arguments::{OutputArguments, TransportChoice};
use crate::client::TestClient;
use crate::client::discovery::{Discovery, Reached};
use crate::live::{self, LiveMode, LiveOutput};
use crate::progress::ProgressDisplay;
use crate::result::{self, Presentation, create_result, host_record, parent_of_results, remove_empty};
use crate::study;
use pathbench_agent::submit::Submitter;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::{output, random, signals};
use pathbench_record::directory::{ResultWriter, Resumed};
use pathbench_record::document::{ResultDocument, ScenarioRecord};
use pathbench_record::network::ServerName;
use pathbench_record::time::SharedClock;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// One invocation of a measuring command.
pub(crate) struct MeasurementSession {
    name: &'static str,
    pub(crate) clock: SharedClock,
    /// Set by the first interrupt.
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) progress: ProgressDisplay,
    pub(crate) document: ResultDocument,
    /// Whether the user gave the seed.
    pub(crate) has_seed: bool,
    /// Submits the result when it is written.
    pub(crate) submitter: Option<Submitter>,
    output: OutputArguments,
    directory: Option<PathBuf>,
}

impl MeasurementSession {
    /// From now on an interrupt sets `stop`. `options` are the options that differ from their defaults.
    pub(crate) fn begin(
        name: &'static str,
        output: &OutputArguments,
        tui: bool,
        seed: Option<u64>,
        options: Map<String, Value>,
        clock: &SharedClock,
    ) -> Self {
        let mut document =
            ResultDocument { seed: seed.unwrap_or_else(random::seed), ..ResultDocument::default() };
        document.host = host_record("user", clock.rfc3339());
        document.scenario = ScenarioRecord {
            name: name.to_owned(),
            origin: "command line".to_owned(),
            overrides: options,
            ..ScenarioRecord::default()
        };
        let stop = signals::stop_flag(live::restore_terminal);
        let live = LiveOutput::begin(LiveMode::from_flags(output.json_stream, tui), &stop, clock);
        Self {
            name,
            clock: Arc::clone(clock),
            stop,
            progress: ProgressDisplay::new(output.quiet, live),
            document,
            has_seed: seed.is_some(),
            submitter: None,
            output: output.clone(),
            directory: None,
        }
    }

    /// Creates the result directory before anything is sent: a command that cannot write must not measure for
    /// minutes.
    pub(crate) fn create_result(&mut self) -> Result<ResultWriter, Failure> {
        let writer = create_result(self.output.out.as_deref(), self.name, &self.document.host.started)?;
        self.directory = Some(writer.path.clone());
        Ok(writer)
    }

    /// As [`Self::create_result`] for a study; opens the result in `resume` if there is one.
    pub(crate) fn open_study(&mut self, resume: Option<&Path>) -> Result<Resumed, Failure> {
        let out = resume.or(self.output.out.as_deref());
        let opened = study::open(out, resume.is_some(), self.name, &self.document.host.started)?;
        self.directory = match &opened {
            Resumed::Unfinished(writer, _) => Some(writer.path.clone()),
            Resumed::Finished(_) => resume.map(Path::to_owned),
        };
        Ok(opened)
    }

    /// Whether the user or the environment names a result directory.
    pub(crate) fn wants_result(&self) -> bool {
        self.output.out.is_some() || parent_of_results().is_some()
    }

    /// Finds the nearest of `servers` and the transports that reach it, and records them, or the failed attempts;
    /// `description` is the command's one-line title.
    pub(crate) fn reach(
        &mut self,
        client: &TestClient,
        choice: &TransportChoice,
        servers: Vec<ServerName>,
        description: &str,
    ) -> Result<Reached, Failure> {
        let discovery = Discovery::new(client, choice, &self.stop);
        let reached = discovery.run(servers, &|line| self.progress.line(line)).map_err(|not_reached| {
            self.document.reachability = not_reached.reachability;
            not_reached.failure
        })?;
        self.document.servers.clone_from(&reached.servers);
        self.document.reachability.clone_from(&reached.reachability);
        self.document.scenario.description = format!("{description} {}", reached.server);
        Ok(reached)
    }

    /// Records notes that a reader needs before reading the figures.
    pub(crate) fn record_notes(&mut self, notes: Vec<String>) {
        for note in &notes {
            self.progress.line(format_args!("note: {note}"));
        }
        self.document.summary.notes = notes;
    }

    /// Writes the report and prints the summary or the document. A command that failed before any measurement leaves
    /// no directory.
    pub(crate) fn finish(mut self, measured: Result<Exit, Failure>) -> Result<Exit, Failure> {
        self.progress.end();
        let live = self.progress.records.clone();
        // A result has them itself.
        let attempts = if measured.is_err() && self.document.runs.is_empty() {
            std::mem::take(&mut self.document.reachability)
        } else {
            Vec::new()
        };
        live.end(self.present(measured), attempts)
    }

    fn present(self, measured: Result<Exit, Failure>) -> Result<Exit, Failure> {
        let is_empty = self.document.runs.is_empty();
        let exit = measured.inspect_err(|_| {
            if let Some(directory) = self.directory.as_deref().filter(|_| is_empty) {
                remove_empty(directory);
            }
        })?;
        let Some(directory) = self.directory.filter(|_| !is_empty) else {
            return output::check_open().map(|()| exit);
        };
        let live = &self.progress.records;
        let presented = Presentation::from_flags(self.output.json, self.output.brief).unless_live(live);
        let presented = result::present(&directory, presented, self.output.no_report);
        if presented.is_ok() {
            live.result(&self.document, &directory);
        }
        let command: Vec<_> = std::env::args_os().collect();
        study::note_resumption(&self.document, &command, &directory);
        if let Some(submitter) = &self.submitter {
            submitter.submit(&directory);
        }
        presented.map(|()| exit)
    }
}
