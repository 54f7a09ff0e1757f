//! The progress of a study: options, the order of the runs, the next one, and the results so far.

use crate::agent::AgentLauncher;
use crate::environment::EnvironmentError;
use crate::scenario::{PatternPlan, Plan};
use pathbench_analysis::assembly::AssembledRun;
use pathbench_record::directory::{ResultWriter, WriteError};
use pathbench_record::document::{HostRecord, LinkSample, ResultDocument, RunRecord};
use pathbench_record::statistics::SplitMix64;
use pathbench_record::summary::{measure_links, summarise, summarise_mobility};
use pathbench_record::transport::TransportLabel;
use pathbench_traffic::client::Progress;
use pathbench_transport::lock;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use thiserror::Error;

/// A study failed. Files that are already written stay.
#[derive(Debug, Error)]
pub enum StudyError {
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl StudyError {
    /// Whether this host lacks a capability: a retry cannot help.
    pub fn is_incapable(&self) -> bool {
        matches!(self, Self::Environment(error) if error.is_incapable())
    }
}

/// Options of a study.
#[derive(Debug)]
pub struct StudyOptions {
    /// The command that starts host agents.
    pub launcher: AgentLauncher,
    /// Whether links are measured before each run.
    pub calibrate: bool,
    /// Whether the packets of every emulated link are written to files, not only of links with `capture`.
    pub capture: bool,
    /// Offset from the clock to nanoseconds since 1970, for captures.
    pub wall_offset_ns: i64,
    pub host: HostRecord,
    /// Maximum number of parallel runs, each in its own lab. They share the machine: for light traffic only.
    pub jobs: NonZeroUsize,
    /// Set when the user stops the study: the current run is discarded, finished runs are kept.
    pub stop: Arc<AtomicBool>,
}

/// Receives the progress of a study, for a live display.
pub trait StudyObserver: Send {
    /// Run `number` (from 1) of `total` begins.
    fn on_run(&mut self, number: usize, total: usize, run: &ScheduledRun, pattern: &PatternPlan);
    fn on_calibration(&mut self);
    fn on_connecting(&mut self);
    fn on_progress(&mut self, progress: &Progress);
    /// An event of the scenario was carried out.
    fn on_event(&mut self, kind: &str, link: &str);
    fn on_record(&mut self, record: &RunRecord);
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledRun {
    pub variant: usize,
    pub label: TransportLabel,
    /// Index of the pattern in the variant's plan.
    pub pattern: usize,
    /// From 1.
    pub repetition: u32,
}

/// The order of all runs: every repetition runs each variant, label and pattern once, shuffled by the seed. `variants`
/// contains the labels of each variant, and the number of patterns that each label runs.
///
/// In each repetition the compared transports run close together in time, so that a slow drift of the machine affects
/// all of them; the shuffle prevents one transport from always being the first.
pub fn schedule(variants: &[(&[TransportLabel], usize)], repeat: u32, seed: u64) -> Vec<ScheduledRun> {
    let mut random = SplitMix64::new(seed);
    let mut runs = Vec::new();
    for repetition in 1..=repeat {
        let mut block: Vec<ScheduledRun> = Vec::new();
        for (variant, (labels, patterns)) in variants.iter().enumerate() {
            for label in *labels {
                let run = |pattern| ScheduledRun { variant, label: label.clone(), pattern, repetition };
                block.extend((0..*patterns).map(run));
            }
        }
        for last in (1..block.len()).rev() {
            block.swap(last, random.below(last + 1));
        }
        runs.append(&mut block);
    }
    runs
}

pub(super) struct ConductedRun {
    pub(super) assembled: AssembledRun,
    pub(super) link_samples: Vec<LinkSample>,
}

pub(super) struct StudyProgress<'a> {
    pub(super) plan: &'a Plan,
    pub(super) order: &'a [ScheduledRun],
    pub(super) writer: &'a mut ResultWriter,
    pub(super) observer: &'a mut dyn StudyObserver,
    pub(super) document: ResultDocument,
    places: Vec<usize>,
    next: usize,
}

impl<'a> StudyProgress<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        order: &'a [ScheduledRun],
        writer: &'a mut ResultWriter,
        observer: &'a mut dyn StudyObserver,
        document: ResultDocument,
    ) -> Self {
        Self { plan, order, writer, observer, document, places: Vec::new(), next: 0 }
    }

    /// The position of the next run in the order; `None` if all runs have begun.
    pub(super) fn begin(&mut self) -> Option<usize> {
        let place = self.next;
        let scheduled = self.order.get(place)?;
        self.next += 1;
        let pattern = &self.plan.variants[scheduled.variant].run.patterns[scheduled.pattern];
        self.observer.on_run(place + 1, self.order.len(), scheduled, pattern);
        Some(place)
    }

    /// Writes the results of the run at `place`. The document keeps the order in which runs began.
    pub(super) fn enter(&mut self, place: usize, run: ConductedRun) -> Result<(), StudyError> {
        let ConductedRun { assembled, link_samples } = run;
        let AssembledRun { record, samples, events, deliveries, messages } = assembled;
        self.writer.append(&samples)?;
        self.writer.append(&events)?;
        self.writer.append(&deliveries)?;
        self.writer.append(&messages)?;
        self.writer.append(&link_samples)?;
        self.observer.on_record(&record);
        let position = self.places.partition_point(|&earlier| earlier < place);
        self.places.insert(position, place);
        self.document.runs.insert(position, record);
        conclude(self.plan, &mut self.document);
        self.writer.write_partial(&self.document)?;
        Ok(())
    }
}

pub(super) struct Listener<'b, 'a> {
    pub(super) progress: &'b Mutex<StudyProgress<'a>>,
    /// Whether it is the only run: a live display shows one run only.
    pub(super) alone: bool,
}

impl Listener<'_, '_> {
    pub(super) fn notify(&self, notify: impl FnOnce(&mut dyn StudyObserver)) {
        if self.alone {
            notify(&mut *lock(self.progress).observer);
        }
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
