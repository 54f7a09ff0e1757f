//! A study: executes every run of a plan in seeded random order, each in a new lab, and writes its result at its end.

pub mod assignment;
mod emulation;
mod progress;
mod run;

pub use progress::{ScheduledRun, StudyError, StudyObserver, StudyOptions, schedule};

use crate::environment::{Emulation, failed};
use crate::scenario::{Engine, Link, PatternPlan, Plan, VariantPlan};
use assignment::Assignment;
use pathbench_host::namespace::NetNamespace;
use pathbench_link::LinkModel;
use pathbench_record::directory::{ResultWriter, WriteError};
use pathbench_record::document::{
    DirectionFigures, HostRecord, LinkFigures, LinkRecord, ResultDocument, ScenarioRecord, Variant,
};
use pathbench_record::time::Clock;
use pathbench_record::transport::Transport;
use pathbench_transport::lock;
use progress::{ConductedRun, Listener, StudyProgress};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Executes every run of `plan`, appends each result to `writer` at the end of its run, and returns the finished
/// document. The caller passes the document to [`ResultWriter::finish`].
///
/// # Errors
/// A lab cannot be built, or the result cannot be written. A failed run is a result, not an error.
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
    let progress = Mutex::new(StudyProgress::new(plan, &order, writer, observer, document));
    let workers = options.jobs.get().min(order.len());
    if workers <= 1 {
        study.work(&progress, true)?;
    } else {
        thread::scope(|scope| {
            let workers: Vec<_> =
                (0..workers).map(|_| scope.spawn(|| study.work_in_a_namespace(&progress))).collect();
            workers.into_iter().try_for_each(|worker| match worker.join() {
                Ok(worked) => worked,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
    }
    let mut document = progress.into_inner().unwrap_or_else(PoisonError::into_inner).document;
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
    /// Set when a worker fails: the other workers finish their runs and begin no further ones.
    failed: AtomicBool,
}

impl Study<'_> {
    /// Executes runs in parallel with other workers. Parallel labs must not share a fabric namespace, so this thread
    /// enters a new one.
    fn work_in_a_namespace(&self, progress: &Mutex<StudyProgress<'_>>) -> Result<(), StudyError> {
        let entered = NetNamespace::create().and_then(|namespace| namespace.enter());
        let entered = entered.map_err(failed("the fabric namespace")).map_err(StudyError::from);
        let worked = entered.and_then(|()| self.work(progress, false));
        if worked.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        worked
    }

    /// Executes runs until none is left or the user stops the study.
    fn work(&self, progress: &Mutex<StudyProgress<'_>>, alone: bool) -> Result<(), StudyError> {
        while !self.failed.load(Ordering::Relaxed) {
            let Some(place) = lock(progress).begin() else { break };
            let run = self.make(place, progress, alone)?;
            lock(progress).enter(place, run)?;
            if self.options.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    fn make(
        &self,
        place: usize,
        progress: &Mutex<StudyProgress<'_>>,
        alone: bool,
    ) -> Result<ConductedRun, StudyError> {
        let Self { plan, options, clock, .. } = self;
        let scheduled = &self.order[place];
        let variant = &plan.variants[scheduled.variant];
        let pattern = &variant.run.patterns[scheduled.pattern];
        let id = run_id(place + 1, scheduled, pattern, variant);
        let (qlog, captures) = {
            let writer = &lock(progress).writer;
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
        Ok(run.conduct(&Listener { progress, alone })?)
    }
}

fn run_id(number: usize, scheduled: &ScheduledRun, pattern: &PatternPlan, variant: &VariantPlan) -> String {
    let of_pattern =
        if variant.run.patterns.len() > 1 { format!("-{}", pattern.name()) } else { String::new() };
    format!("{number:02}-{}{of_pattern}-r{}", scheduled.label, scheduled.repetition)
}

/// Creates the directory for a run's qlogs, if the run writes any.
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
    let path = writer.path.join("qlog").join(id);
    match fs::create_dir_all(&path) {
        Ok(()) => Ok(Some(path)),
        Err(source) => Err(WriteError { path, source }),
    }
}

/// The capture files of a run, by link. Creates their directory.
fn captures(
    writer: &ResultWriter,
    variant: &VariantPlan,
    all: bool,
    id: &str,
) -> Result<BTreeMap<String, PathBuf>, WriteError> {
    let directory = writer.path.join("captures");
    let captured = |link: &&Link| link.engine == Engine::Emulated && (link.capture || all);
    let file = |link: &Link| (link.name.clone(), directory.join(format!("{id}-{}.pcapng", link.name)));
    let files: BTreeMap<_, _> = variant.topology.links.iter().filter(captured).map(file).collect();
    if !files.is_empty() {
        fs::create_dir_all(&directory).map_err(|source| WriteError { path: directory.clone(), source })?;
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

/// One record per link; a link that the matrix changes has one record for each variation.
fn link_records(plan: &Plan) -> Vec<LinkRecord> {
    let mut records: Vec<LinkRecord> = Vec::new();
    for variant in &plan.variants {
        let topology = &variant.topology;
        for link in topology.links.iter().filter(|link| topology.is_reported(&link.name)) {
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
