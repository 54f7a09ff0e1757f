//! Continuous probing: every change of a path's MTU is printed, and with --apply the kernel follows it.

use super::examination::{Examination, WatchEvent, probe_plan, watch_all};
use super::remedy::Application;
use super::{Findings, Job, diagnosis};
use crate::exit::Failure;
use crate::output;
use pathbench_host::path_mtu::PathObserver;
use pathbench_record::document::{MtuChange, PathMtu};
use pathbench_record::time::Timestamp;
use pathbench_report::terminal::mtu_change;
use pathbench_traffic::path_mtu::{MtuEvent, MtuPlan, PathMtuFound, WatchPace};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Larger sizes are probed once in so many intervals.
const LOOKS_PER_LARGER: u32 = 5;
const TICK: Duration = Duration::from_millis(100);

/// Watches until the user stops it, or the time is over.
pub(super) fn watch(
    job: &Job<'_>,
    findings: &mut Findings,
    application: Option<&mut Application>,
    observer: &mut PathObserver,
) -> Result<(), Failure> {
    let asked = &job.args.watch;
    let pace = WatchPace {
        interval: asked.interval.0,
        larger_interval: asked.interval.0.saturating_mul(LOOKS_PER_LARGER),
    };
    let token = job.args.connection.token.as_deref();
    let plans: Vec<MtuPlan> = findings.examinations.iter().map(|one| probe_plan(&one.path, token)).collect();
    job.progress.line(format_args!("{}, until Ctrl-C", job.announcement(&findings.examinations)));
    let end = AtomicBool::new(false);
    let begun = job.clock.now();
    let mut watch = Watch {
        job,
        waiting: vec![true; plans.len()],
        findings,
        application,
        observer,
        begun,
        looked: begun,
        unwritten: None,
    };
    let ended = watch_all(&plans, pace, &job.clock, &end, |events| {
        let ended = watch.run(events);
        end.store(true, Ordering::Release);
        ended
    });
    // The changes are undone however the watch ended.
    let closed = watch.close();
    let unwritten = output::check().err().or(watch.unwritten.take());
    closed.and(ended)?;
    findings.failure = findings.failure.take().or(unwritten);
    Ok(())
}

struct Watch<'a, 'b> {
    job: &'a Job<'a>,
    /// Paths without any event so far.
    waiting: Vec<bool>,
    findings: &'a mut Findings,
    application: Option<&'a mut Application>,
    observer: &'b mut PathObserver,
    begun: Timestamp,
    /// When the connections were read last.
    looked: Timestamp,
    /// Why standard output could not be written, which ends the watch.
    unwritten: Option<Failure>,
}

impl Watch<'_, '_> {
    fn run(&mut self, events: &Receiver<(usize, WatchEvent)>) -> Result<(), Failure> {
        let until = self.job.args.watch.duration.map(|time| self.begun + time.0);
        let mut shown = false;
        loop {
            match events.recv_timeout(TICK) {
                Ok((index, event)) => self.add(index, event)?,
                Err(RecvTimeoutError::Timeout) => {}
                // No path can be watched.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = self.job.clock.now();
            let stopped = self.job.stop.load(Ordering::Relaxed) || self.unwritten.is_some();
            if stopped || until.is_some_and(|until| now >= until) {
                break;
            }
            if !shown && !self.waiting.contains(&true) {
                self.show_first()?;
                shown = true;
            }
            if shown && now.since(self.looked) >= self.job.args.watch.interval.0 {
                self.looked = now;
                for index in 0..self.findings.examinations.len() {
                    self.diagnose(index, false)?;
                }
            }
        }
        if shown { Ok(()) } else { self.show_first() }
    }

    /// Shows all paths, once there is an event of each.
    fn show_first(&mut self) -> Result<(), Failure> {
        self.findings.diagnose(self.observer, self.application.is_some());
        self.job.verdict(&self.findings.examinations)?;
        self.job.correct(self.findings, self.application.as_deref_mut(), self.observer);
        self.unwritten = self.job.show(&self.findings.record).err();
        self.findings.failure.take().map_or(Ok(()), Err)
    }

    fn add(&mut self, index: usize, event: WatchEvent) -> Result<(), Failure> {
        let first = std::mem::replace(&mut self.waiting[index], false);
        let one = &mut self.findings.examinations[index];
        let before = sizes(one);
        let at = match event {
            WatchEvent::Failed(error) => {
                one.found = Some(Err(error));
                return Ok(());
            }
            WatchEvent::News(at, MtuEvent::Examined(now) | MtuEvent::Changed { now, .. }) => {
                one.found = Some(Ok(*now));
                at
            }
            WatchEvent::News(at, MtuEvent::Away { reason }) => {
                let name = one.path.name.clone();
                one.found = None;
                let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                self.job.progress.line(format_args!("{name}: the server does not answer any more{reason}"));
                at
            }
        };
        if first {
            return Ok(());
        }
        let now = sizes(one);
        let name = one.path.name.clone();
        let mut changed = false;
        for (direction, from_bytes, to_bytes) in
            [("upload", before[0], now[0]), ("download", before[1], now[1])]
        {
            if from_bytes != to_bytes {
                let t_ms = at.since(self.begun).as_secs_f64() * 1e3;
                let path = name.clone();
                self.say_change(MtuChange {
                    t_ms,
                    path,
                    direction: direction.to_owned(),
                    from_bytes,
                    to_bytes,
                });
                changed = true;
            }
        }
        if changed { self.diagnose(index, true) } else { Ok(()) }
    }

    /// Compares a path's MTU with the kernel's state, and corrects that with --apply.
    fn diagnose(&mut self, index: usize, changed: bool) -> Result<(), Failure> {
        let one = &mut self.findings.examinations[index];
        if one.found.is_none() {
            return Ok(());
        }
        let was_stuck = !one.stuck.is_empty();
        one.update_connections(self.observer);
        one.update_state(self.observer);
        let record = one.record(&self.findings.record.server, self.application.is_some());
        let newly_stuck = !was_stuck && !one.stuck.is_empty();
        if newly_stuck {
            record
                .disagreements
                .iter()
                .filter(|words| words.contains("is stuck"))
                .for_each(|words| self.say(words));
        }
        let correct = is_wrong(&record) && (changed || newly_stuck || self.application.is_some());
        if let Some(slot) = self.findings.record.paths.get_mut(index) {
            *slot = record;
        }
        if correct { self.correct(index) } else { Ok(()) }
    }

    fn correct(&mut self, index: usize) -> Result<(), Failure> {
        let Some(application) = self.application.as_deref_mut() else {
            let advice = self.findings.record.paths[index].advice.clone();
            for words in &advice {
                self.say(words);
            }
            return Ok(());
        };
        let one = &self.findings.examinations[index];
        let path = &self.findings.record.paths[index];
        let corrected = application.correct(one, path, self.observer, &*self.job.clock);
        for step in corrected.steps.iter().filter(|step| step.done) {
            self.say(&step.command);
        }
        // A note that repeats is printed once.
        let known = &self.findings.record.notes;
        let notes: Vec<String> = corrected.notes.into_iter().filter(|note| !known.contains(note)).collect();
        for note in &notes {
            self.job.progress.line(note);
        }
        self.findings.record.notes.extend(notes);
        self.findings.record.steps.extend(corrected.steps.into_iter().filter(|step| step.done));
        match corrected.failure {
            Some(failure) if failure.exit == crate::exit::Exit::HostCannot => Err(failure),
            Some(failure) => {
                failure.report();
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn say_change(&mut self, change: MtuChange) {
        let line = mtu_change(&change, output::style());
        self.say(line.trim_end());
        self.findings.record.changes.push(change);
    }

    /// A line on standard output, which belongs to the document with --json.
    fn say(&mut self, line: &str) {
        if self.job.args.output.json {
            self.job.progress.line(line);
        } else if self.unwritten.is_none() {
            self.unwritten = output::print(&format!("{line}\n")).err();
        }
    }

    fn close(&mut self) -> Result<(), Failure> {
        if !self.job.args.watch.undo_at_end {
            return Ok(());
        }
        if let Some(application) = self.application.as_deref_mut()
            && application.journal().exists()
        {
            let undone = application.undo(false);
            undone.restored.lines().for_each(|line| self.say(line));
            undone.ending?;
            self.findings.record.notes.push("the changes were undone at the end of the watch".to_owned());
        }
        Ok(())
    }
}

/// The MTU of both directions, as far as it is known.
fn sizes(one: &Examination) -> [Option<u32>; 2] {
    let found: Option<&PathMtuFound> = one.found.as_ref().and_then(|found| found.as_ref().ok());
    let size = |direction: &pathbench_traffic::path_mtu::DirectionFound| {
        direction.found.as_ref().ok().map(|found| found.mtu_bytes)
    };
    [found.and_then(|found| size(&found.upload)), found.and_then(|found| size(&found.download))]
}

/// Whether the kernel's route or a connection needs correction.
fn is_wrong(path: &PathMtu) -> bool {
    let Some(kernel) = &path.kernel else { return false };
    let Ok(target) = diagnosis::target_bytes(path) else { return false };
    diagnosis::needs_route(path, kernel, target) || kernel.connections.iter().any(|one| one.stuck)
}
