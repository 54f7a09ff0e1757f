//! The book of a study: which run is next, and what those that are over have brought. Shared by runs side by side.

use super::run::ConductedRun;
use super::{StudyError, StudyObserver, conclude};
use crate::order::ScheduledRun;
use crate::scenario::{PatternPlan, Plan};
use pathbench_analysis::assembly::AssembledRun;
use pathbench_record::directory::ResultWriter;
use pathbench_record::document::{ResultDocument, RunLink, RunRecord};
use pathbench_traffic::client::Progress;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) struct Book<'a> {
    pub(super) plan: &'a Plan,
    pub(super) order: &'a [ScheduledRun],
    pub(super) writer: &'a mut ResultWriter,
    pub(super) observer: &'a mut dyn StudyObserver,
    pub(super) document: ResultDocument,
    places: Vec<usize>,
    next: usize,
}

impl<'a> Book<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        order: &'a [ScheduledRun],
        writer: &'a mut ResultWriter,
        observer: &'a mut dyn StudyObserver,
        document: ResultDocument,
    ) -> Self {
        Self { plan, order, writer, observer, document, places: Vec::new(), next: 0 }
    }

    /// The next run's place in the order; `None` when all have begun.
    pub(super) fn begin(&mut self) -> Option<usize> {
        let place = self.next;
        let scheduled = self.order.get(place)?;
        self.next += 1;
        let pattern = &self.plan.variants[scheduled.variant].run.patterns[scheduled.pattern];
        self.observer.on_run(place + 1, self.order.len(), scheduled, pattern);
        Some(place)
    }

    /// Writes down what the run at `place` has brought. The document keeps the order in which runs began.
    pub(super) fn enter(&mut self, place: usize, run: ConductedRun) -> Result<(), StudyError> {
        let ConductedRun { assembled, link_samples } = run;
        let AssembledRun { record, samples, events, deliveries, messages } = assembled;
        self.writer.append_run(&samples, &events, &deliveries)?;
        self.writer.append_messages(&messages)?;
        self.writer.append_links(&link_samples)?;
        self.observer.on_record(&record);
        let position = self.places.partition_point(|&earlier| earlier < place);
        self.places.insert(position, place);
        self.document.runs.insert(position, record);
        conclude(self.plan, &mut self.document);
        self.writer.write_partial(&self.document)?;
        Ok(())
    }
}

/// Locks the book. A thread that panicked while it held it has left it as it was between two entries, or the panic is
/// passed on anyway.
pub(super) fn open<'b, 'a>(book: &'b Mutex<Book<'a>>) -> MutexGuard<'b, Book<'a>> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Listener<'b, 'a> {
    pub(super) book: &'b Mutex<Book<'a>>,
    /// Whether it is the only run: what several do at the same moment would only be a muddle.
    pub(super) alone: bool,
}

impl Listener<'_, '_> {
    fn tell(&self, tell: impl FnOnce(&mut dyn StudyObserver)) {
        if self.alone {
            tell(&mut *open(self.book).observer);
        }
    }
}

impl StudyObserver for Listener<'_, '_> {
    fn on_run(&mut self, number: usize, total: usize, run: &ScheduledRun, pattern: &PatternPlan) {
        self.tell(|observer| observer.on_run(number, total, run, pattern));
    }

    fn on_calibration(&mut self) {
        self.tell(|observer| observer.on_calibration());
    }

    fn on_links(&mut self, links: &[RunLink]) {
        self.tell(|observer| observer.on_links(links));
    }

    fn on_progress(&mut self, progress: &Progress) {
        self.tell(|observer| observer.on_progress(progress));
    }

    fn on_event(&mut self, kind: &str, link: &str) {
        self.tell(|observer| observer.on_event(kind, link));
    }

    fn on_record(&mut self, record: &RunRecord) {
        self.tell(|observer| observer.on_record(record));
    }
}
