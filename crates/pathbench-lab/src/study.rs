//! A study: every run of a plan, in seeded random order, each in a fresh lab, written down as it ends.

mod assignment;
mod book;
mod emulation;
mod run;
mod setting;

use crate::agent::AgentLauncher;
use crate::environment::{Emulation, EnvironmentError};
use crate::order::{ScheduledRun, schedule};
use crate::scenario::{Engine, Link, PatternPlan, Plan, VariantPlan};
use assignment::Assignment;
use book::{Book, Listener, open};
use pathbench_host::namespace::NetNamespace;
use pathbench_link::LinkModel;
use pathbench_record::directory::{ResultWriter, WriteError};
use pathbench_record::document::{
    DirectionFigures, HostRecord, LinkFigures, LinkRecord, ResultDocument, RunLink, RunRecord,
    ScenarioRecord, Variant,
};
use pathbench_record::summary::{measure_links, summarise, summarise_mobility};
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_traffic::client::Progress;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use thiserror::Error;

/// A study could not go on. What had been written stays.
#[derive(Debug, Error)]
pub enum StudyError {
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl StudyError {
    /// Whether this host cannot do what was asked, whatever is tried.
    pub fn is_incapable(&self) -> bool {
        matches!(self, Self::Environment(error) if error.is_incapable())
    }
}

/// What a study needs beside its plan.
#[derive(Debug)]
pub struct StudyOptions {
    /// How host agents are started.
    pub launcher: AgentLauncher,
    /// Whether links are measured before each run.
    pub calibrate: bool,
    /// Whether the packets of every emulated link are written to files, also of those that the scenario does not say
    /// so of.
    pub capture: bool,
    /// What to add to the clock to get nanoseconds since 1970, for captures.
    pub wall_offset_ns: i64,
    pub host: HostRecord,
    /// Runs made at the same time, each in a lab of its own. They share the machine: for light traffic only.
    pub jobs: NonZeroUsize,
    /// Set when the user wants to stop: the run in progress is given up, the finished ones are kept.
    pub stop: Arc<AtomicBool>,
}

/// Hears how a study goes on, for a live display.
pub trait StudyObserver: Send {
    /// Run `number` (from 1) of `total` begins.
    fn on_run(&mut self, number: usize, total: usize, run: &ScheduledRun, pattern: &PatternPlan);
    fn on_calibration(&mut self);
    fn on_links(&mut self, links: &[RunLink]);
    fn on_progress(&mut self, progress: &Progress);
    /// An event of the scenario was carried out.
    fn on_event(&mut self, kind: &str, link: &str);
    fn on_record(&mut self, record: &RunRecord);
}

/// Makes every run of `plan`, appends each to `writer` as it ends, and returns the finished document.
/// The caller hands it to [`ResultWriter::finish`].
///
/// # Errors
/// When a lab cannot be built or the result cannot be written. A run that fails is no error but a result.
pub fn conduct(
    plan: &Plan,
    options: &StudyOptions,
    clock: &Arc<dyn Clock>,
    writer: &mut ResultWriter,
    observer: &mut dyn StudyObserver,
) -> Result<ResultDocument, StudyError> {
    let variants: Vec<_> = plan
        .variants
        .iter()
        .map(|variant| (variant.run.labels.as_slice(), variant.run.patterns.len()))
        .collect();
    let order = schedule(&variants, plan.repeat, plan.seed);
    let document = empty_document(plan, &options.host);
    let study = Study { plan, options, clock, order: &order, failed: AtomicBool::new(false) };
    let book = Mutex::new(Book::new(plan, &order, writer, observer, document));
    let workers = options.jobs.get().min(order.len());
    if workers <= 1 {
        study.work(&book, true)?;
    } else {
        thread::scope(|scope| {
            let workers: Vec<_> =
                (0..workers).map(|_| scope.spawn(|| study.work_in_a_room_of_its_own(&book))).collect();
            workers.into_iter().try_for_each(|worker| match worker.join() {
                Ok(worked) => worked,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
    }
    let mut document = book.into_inner().unwrap_or_else(PoisonError::into_inner).document;
    if options.stop.load(Ordering::Relaxed) {
        let missing = order.len() - document.runs.len();
        let note = format!("stopped by the user; {missing} of {} runs were not made", order.len());
        document.summary.notes.push(note);
    }
    Ok(document)
}

struct Study<'a> {
    plan: &'a Plan,
    options: &'a StudyOptions,
    clock: &'a Arc<dyn Clock>,
    order: &'a [ScheduledRun],
    /// Set when a worker cannot go on: the others end their runs and begin none.
    failed: AtomicBool,
}

impl Study<'_> {
    /// Makes runs beside other workers. Labs side by side must not share a wire room, which is the thread's namespace.
    fn work_in_a_room_of_its_own(&self, book: &Mutex<Book<'_>>) -> Result<(), StudyError> {
        let room = NetNamespace::create().and_then(|room| room.enter());
        let in_room = |source| EnvironmentError::Namespace { node: "the wire room".to_owned(), source };
        let worked = room.map_err(|source| in_room(source).into()).and_then(|()| self.work(book, false));
        if worked.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        worked
    }

    /// Makes runs until there are none left, or the user wants to stop.
    fn work(&self, book: &Mutex<Book<'_>>, alone: bool) -> Result<(), StudyError> {
        while !self.failed.load(Ordering::Relaxed) {
            let Some(place) = open(book).begin() else { break };
            let run = self.make(place, book, alone)?;
            open(book).enter(place, run)?;
            if self.options.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    fn make(
        &self,
        place: usize,
        book: &Mutex<Book<'_>>,
        alone: bool,
    ) -> Result<run::ConductedRun, StudyError> {
        let Self { plan, options, clock, .. } = self;
        let scheduled = &self.order[place];
        let variant = &plan.variants[scheduled.variant];
        let pattern = &variant.run.patterns[scheduled.pattern];
        let id = run_id(place + 1, scheduled, pattern, variant);
        let (qlog, captures) = {
            let writer = &open(book).writer;
            let qlog = qlog_directory(writer, variant, scheduled, &id)?;
            (qlog, captures(writer, variant, options.capture, &id)?)
        };
        let assignment = Assignment {
            plan: variant,
            label: &scheduled.label,
            pattern,
            sample_interval: plan.sample_interval,
            qlog,
            id,
        };
        let emulation = Emulation {
            clock: Arc::clone(clock),
            seed: plan.seed,
            repetition: scheduled.repetition,
            wall_offset_ns: options.wall_offset_ns,
            captures,
        };
        let run = run::Run {
            assignment,
            repetition: scheduled.repetition,
            options,
            emulation: &emulation,
            lateness_tolerance: plan.lateness_tolerance,
            clock,
        };
        Ok(run.conduct(&mut Listener { book, alone })?)
    }
}

fn run_id(number: usize, scheduled: &ScheduledRun, pattern: &PatternPlan, variant: &VariantPlan) -> String {
    let of_pattern =
        if variant.run.patterns.len() > 1 { format!("-{}", pattern.name()) } else { String::new() };
    format!("{number:02}-{}{of_pattern}-r{}", scheduled.label, scheduled.repetition)
}

/// Makes the directory for a run's qlogs, where it has any and they are wanted.
fn qlog_directory(
    writer: &ResultWriter,
    variant: &VariantPlan,
    scheduled: &ScheduledRun,
    id: &str,
) -> Result<Option<PathBuf>, WriteError> {
    let is_quic = matches!(scheduled.label.transport, Transport::Quic | Transport::Mpquic);
    if !is_quic || !variant.run.quic.qlog {
        return Ok(None);
    }
    let path = writer.path().join("qlog").join(id);
    match fs::create_dir_all(&path) {
        Ok(()) => Ok(Some(path)),
        Err(source) => Err(WriteError::Io { path, source }),
    }
}

/// The files that a run's packets go to, by link, with their directory made.
fn captures(
    writer: &ResultWriter,
    variant: &VariantPlan,
    all: bool,
    id: &str,
) -> Result<BTreeMap<String, PathBuf>, WriteError> {
    let directory = writer.path().join("captures");
    let captured = |link: &&Link| link.engine == Engine::Emulated && (link.capture || all);
    let file = |link: &Link| (link.name.clone(), directory.join(format!("{id}-{}.pcapng", link.name)));
    let files: BTreeMap<_, _> = variant.topology.links.iter().filter(captured).map(file).collect();
    if !files.is_empty() {
        fs::create_dir_all(&directory)
            .map_err(|source| WriteError::Io { path: directory.clone(), source })?;
    }
    Ok(files)
}

fn empty_document(plan: &Plan, host: &HostRecord) -> ResultDocument {
    ResultDocument {
        scenario: ScenarioRecord {
            name: plan.name.clone(),
            description: plan.description.clone(),
            origin: plan.origin.clone(),
            text: plan.text.clone(),
            overrides: plan.overrides.clone(),
        },
        seed: plan.seed,
        host: host.clone(),
        links: link_records(plan),
        ..ResultDocument::default()
    }
}

fn conclude(plan: &Plan, document: &mut ResultDocument) {
    measure_links(&mut document.links, &document.runs);
    document.summary.groups = summarise(&document.runs);
    document.summary.mobility = summarise_mobility(&document.runs);
    document.summary.expectations =
        plan.expectations.iter().map(|expectation| expectation.evaluate(document)).collect();
    document.summary.notes.clone_from(&plan.left_out);
}

/// One record a link, or one for each of its shapes where the matrix changes it.
fn link_records(plan: &Plan) -> Vec<LinkRecord> {
    let mut records: Vec<LinkRecord> = Vec::new();
    for variant in &plan.variants {
        let topology = &variant.topology;
        for link in topology.links.iter().filter(|link| topology.is_told(&link.name)) {
            let record = link_record(link);
            let same = |other: &VariantPlan| {
                other.topology.link(&link.name).map(link_record) == Some(record.clone())
            };
            let same_in_all = plan.variants.iter().all(same);
            let variant = if same_in_all { Variant::default() } else { variant.variant.clone() };
            let record = LinkRecord { variant, ..record };
            if !records.contains(&record) {
                records.push(record);
            }
        }
    }
    records
}

fn link_record(link: &Link) -> LinkRecord {
    LinkRecord {
        name: link.name.clone(),
        ends: [link.ends[0].node.clone(), link.ends[1].node.clone()],
        engine: link.engine.name().to_owned(),
        variant: Variant::default(),
        requested: LinkFigures {
            mtu_bytes: link.mtu_bytes(),
            forward: direction_figures(&link.forward, &link.requested[0]),
            reverse: direction_figures(&link.reverse, &link.requested[1]),
        },
        measured: None,
        tolerance: link.tolerance,
    }
}

fn direction_figures(model: &LinkModel, requested: &Map<String, Value>) -> DirectionFigures {
    let delay = model.constant_delay().filter(|delay| !delay.is_zero());
    DirectionFigures {
        rate_bps: model.mean_rate_bps(),
        delay_ms: delay.map(|delay| delay.as_secs_f64() * 1e3),
        queue_bytes: model.queue_bytes(),
        loss: model.independent_loss().filter(|loss| *loss > 0.0),
        given: requested.clone(),
    }
}
