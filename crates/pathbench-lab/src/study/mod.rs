//! A study: executes every run of its plans in seeded random order, each in a new lab, and writes its result at its end.

pub mod assignment;
mod attempts;
mod capture;
mod emulation;
pub mod ending;
mod join;
mod load;
mod order;
mod progress;
mod run;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test panics")]
mod simulated;

pub use attempts::{Attempt, AttemptQueue};
pub use ending::{ending_note, is_ending_note, is_interrupted};
pub use join::{ShardJoinError, ShardResult, join};
pub use load::{LoadMeter, note as load_note};
pub use order::{Block, RunKind, RunOrder, ScheduledRun, interleave, run_ids, schedule};
pub use progress::{BegunRun, StudyError, StudyMember, StudyObserver, StudyOptions, conclude};

use crate::environment::{Emulation, failure_at};
use crate::scenario::{LinkEngine, LinkPlan, ScenarioPlan, VariantPlan};
use assignment::RunAssignment;
use order::run_id;
use pathbench_host::namespace::NetNamespace;
use pathbench_link::LinkModel;
use pathbench_record::directory::{ResultWriter, WriteError};
use pathbench_record::document::{
    DirectionFigures, LinkFigures, LinkRecord, ResultDocument, ScenarioRecord, StopReason, StudyRecord,
    Variant,
};
use pathbench_record::file::OpenDirectory;
use pathbench_record::time::Clock;
use pathbench_transport::lock;
use progress::{Begun, ConductedRun, MemberProgress, ObserverHandle, StudyProgress};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Executes all runs of `members` that their documents do not contain, in one order over all of them. Appends each
/// result to its writer at the end of its run, and returns the finished documents. The caller passes them to
/// [`ResultWriter::finish`].
///
/// # Errors
/// A lab cannot be built, or the result cannot be written. A failed run is a result, not an error.
pub fn conduct(
    members: Vec<StudyMember<'_>>,
    options: &StudyOptions,
    clock: &Arc<dyn Clock>,
    observer: &mut dyn StudyObserver,
) -> Result<Vec<ResultDocument>, StudyError> {
    let mut members: Vec<_> =
        members.into_iter().map(|member| MemberProgress::new(member, options.shard)).collect();
    for progress in &mut members {
        progress.member.writer.begin_runs(&progress.member.document)?;
    }
    let progress = StudyProgress::new(members, options, clock);
    let listener = ObserverHandle(Mutex::new(observer));
    let study = Study { options, clock, listener, failed: AtomicBool::new(false) };
    let workers = options.jobs.get().min(progress.pending_runs());
    let progress = Mutex::new(progress);
    if workers <= 1 {
        study.work(&progress)?;
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
    let progress = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    let user = options.stop.load(Ordering::Relaxed).then_some(StopReason::User);
    let stopped = user.or(progress.stopped);
    let retries: Vec<usize> =
        (0..progress.members.len()).map(|member| progress.due_retries(member)).collect();
    let members = progress.members.into_iter().zip(retries);
    Ok(members.map(|(member, retries)| finish(member, stopped, retries)).collect())
}

/// The document of a scenario. `retries` are the retries that were due and not made.
fn finish(progress: MemberProgress<'_>, stopped: Option<StopReason>, retries: usize) -> ResultDocument {
    let (missing, planned) = (progress.missing_runs(), progress.order.len());
    let StudyMember { plan, mut document, .. } = progress.member;
    conclude(plan, &mut document);
    let is_partial = missing > 0 || retries > 0 || document.runs.iter().any(is_interrupted);
    let stopped = stopped.filter(|_| is_partial).unwrap_or(StopReason::Completed);
    document.summary.notes.extend(ending_note(stopped, missing, planned, retries));
    if let Some(study) = &mut document.study {
        study.stopped = Some(stopped);
    }
    document
}

struct Study<'a> {
    options: &'a StudyOptions,
    clock: &'a Arc<dyn Clock>,
    listener: ObserverHandle<'a>,
    /// Set when a worker fails: the other workers finish their runs and begin no further ones.
    failed: AtomicBool,
}

impl Study<'_> {
    /// Executes runs in parallel with other workers. Parallel labs must not share a fabric namespace, so this thread
    /// enters a new one.
    fn work_in_a_namespace(&self, progress: &Mutex<StudyProgress<'_>>) -> Result<(), StudyError> {
        let entered = NetNamespace::create().and_then(|namespace| namespace.enter());
        let entered = entered.map_err(failure_at("the fabric namespace")).map_err(StudyError::from);
        let worked = entered.and_then(|()| self.work(progress));
        if worked.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        worked
    }

    /// Executes runs until none is left or the user stops the study.
    fn work(&self, progress: &Mutex<StudyProgress<'_>>) -> Result<(), StudyError> {
        while !self.failed.load(Ordering::Relaxed) {
            let Some(begun) = lock(progress).begin() else { break };
            let run = self.make(begun, progress)?;
            let (record, left) = {
                let mut progress = lock(progress);
                (progress.enter(begun, run)?, progress.left())
            };
            self.listener.notify(|observer| observer.on_record(&record, left));
            if self.options.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    fn make(&self, begun: Begun, progress: &Mutex<StudyProgress<'_>>) -> Result<ConductedRun, StudyError> {
        let Self { options, clock, .. } = self;
        let (plan, scheduled, planned, id, qlog, captures) = {
            let progress = lock(progress);
            let member = &progress.members[begun.member];
            let (plan, scheduled) = member.run(begun.index);
            let variant = &plan.variants[scheduled.variant];
            let planned = run_id(plan, scheduled, options.shard);
            let id = begun.attempt.id(&planned);
            let writer = &*member.member.writer;
            let qlog = qlog_directory(writer, variant, scheduled, &id)?;
            let captures = captures(writer, variant, options.capture, &id)?;
            (plan, scheduled.clone(), planned, id, qlog, captures)
        };
        let variant = &plan.variants[scheduled.variant];
        let pattern = &variant.run.patterns[scheduled.pattern];
        let of_run = BegunRun {
            id: &id,
            number: begun.number,
            runs: begun.runs,
            attempt: begun.attempt.number,
            left: begun.left,
            scheduled: &scheduled,
            scenario: &plan.name,
            plan: variant,
            pattern,
        };
        self.listener.notify(|observer| observer.on_run(&of_run));
        let assignment = RunAssignment {
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
        let run = run::RunExecution {
            assignment,
            options,
            emulation: &emulation,
            lateness_tolerance: plan.lateness_tolerance,
        };
        let mut conducted = run.conduct(&self.listener)?;
        begun.attempt.mark(&planned, &mut conducted.assembled.record);
        Ok(conducted)
    }
}

/// Creates the directory for a run's qlogs, if the run writes any.
fn qlog_directory(
    writer: &ResultWriter,
    variant: &VariantPlan,
    scheduled: &ScheduledRun,
    id: &str,
) -> Result<Option<PathBuf>, WriteError> {
    if !scheduled.label.transport.is_quic() || !variant.run.quic.qlog {
        return Ok(None);
    }
    let path = writer.path.join("qlog").join(id);
    let created =
        OpenDirectory::open(&writer.path).and_then(|result| result.subdirectory("qlog")?.subdirectory(id));
    match created {
        Ok(_) => Ok(Some(path)),
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
    let captured = |link: &&LinkPlan| link.engine == LinkEngine::Emulated && (link.capture || all);
    let file = |link: &LinkPlan| (link.name.clone(), directory.join(format!("{id}-{}.pcapng", link.name)));
    let files: BTreeMap<_, _> = variant.topology.links.iter().filter(captured).map(file).collect();
    if !files.is_empty() {
        OpenDirectory::open(&writer.path)
            .and_then(|result| result.subdirectory("captures"))
            .map_err(|source| WriteError { path: directory.clone(), source })?;
    }
    Ok(files)
}

pub fn first_document(plan: &ScenarioPlan, options: &StudyOptions) -> ResultDocument {
    let all = plan.variants.iter().flat_map(|variant| &variant.run.labels);
    let labels: BTreeSet<String> = all.map(ToString::to_string).collect();
    let study = StudyRecord {
        planned_runs: plan.run_count(),
        repetitions: plan.repeat,
        warm_up: plan.warm_up,
        labels: labels.into_iter().collect(),
        shard: options.shard,
        until_ci_percent: options.until_ci_percent,
        time_limit_ms: options.time_limit.map(|limit| limit.as_secs_f64() * 1e3),
        jobs: u32::try_from(options.jobs.get()).ok().filter(|jobs| *jobs > 1),
        retry_invalid: Some(options.retry_invalid),
        uncalibrated: !options.calibrate,
        sessions: vec![options.host.started.clone()],
        ..StudyRecord::default()
    };
    let mut document = ResultDocument {
        scenario: ScenarioRecord {
            name: plan.name.clone(),
            description: plan.description.clone(),
            origin: plan.origin.clone(),
            text: plan.text.clone(),
            overrides: plan.overrides.clone(),
        },
        seed: plan.seed,
        host: options.host.clone(),
        links: link_records(plan),
        study: Some(study),
        ..ResultDocument::default()
    };
    document.identify_study();
    document
}

/// One record per link; a link that the matrix changes has one record for each variation.
fn link_records(plan: &ScenarioPlan) -> Vec<LinkRecord> {
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

fn link_record(link: &LinkPlan) -> LinkRecord {
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
