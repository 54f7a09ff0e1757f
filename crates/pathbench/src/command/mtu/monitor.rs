//! Probes all paths in parallel, one thread each, and compares the results with the kernel's state: once, or
//! continuously in a watch. A watch prints every change of a path's MTU, and with --apply corrects the kernel.

use super::examination::{Examination, host_path};
use super::remedy::{self, RemedyApplication};
use crate::arguments::MtuArgs;
use crate::client::first_addresses;
use crate::progress::ProgressDisplay;
use crate::result::style;
use crate::session::MeasurementSession;
use pathbench_analysis::path_mtu;
use pathbench_host::change::PlannedStep;
use pathbench_host::path_mtu::PathObserver;
use pathbench_host::paths::HostNetwork;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::output;
use pathbench_record::document::{MtuChange, MtuRecord, MtuStep, PathMtu};
use pathbench_record::live::{LiveMtuPath, LiveRecord};
use pathbench_record::network::ServerName;
use pathbench_record::time::{Clock, Timestamp};
use pathbench_report::terminal::{self, mtu_change};
use pathbench_traffic::datagram::{DatagramError, UdpPath};
use pathbench_traffic::path_mtu::{MtuBounds, MtuEvent, MtuPlan, WatchPace, find_mtu, watch_mtu};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// In a watch, larger sizes are probed once per this many intervals.
const LARGER_INTERVALS: u32 = 5;
const TICK: Duration = Duration::from_millis(100);

type ProbeResult = Result<(Timestamp, MtuEvent), DatagramError>;

pub(super) struct Monitor<'a> {
    args: &'a MtuArgs,
    server: ServerName,
    stop: Arc<AtomicBool>,
    progress: &'a ProgressDisplay,
    clock: Arc<dyn Clock>,
    application: Option<RemedyApplication>,
    observer: PathObserver,
    examinations: Vec<Examination>,
    record: MtuRecord,
    begun: Timestamp,
    /// Start time of the command, RFC 3339.
    started: String,
    /// When the connections were last read.
    updated: Timestamp,
    /// Why planned changes were not made.
    failure: Option<Failure>,
    /// Why standard output could not be written, which ends a watch.
    unwritten: Option<Failure>,
}

impl<'a> Monitor<'a> {
    /// Finds the paths, and reads the kernel's state of each before probing: ICMP answers to probes change the state.
    pub(super) fn new(
        args: &'a MtuArgs,
        server: ServerName,
        application: Option<RemedyApplication>,
        session: &'a MeasurementSession,
    ) -> Result<Self, Failure> {
        let mut observer = PathObserver::open().map_err(Failure::failed)?;
        let servers = first_addresses(&server, args.connection.family())?;
        let interfaces = &args.connection.interfaces;
        let network = HostNetwork::read().map_err(Failure::failed)?;
        let (paths, notes) = network.probed_paths(interfaces, &servers).map_err(|message| Failure {
            exit: if interfaces.is_empty() { Exit::Unreachable } else { Exit::BadInput },
            message,
        })?;
        let clock = Arc::clone(&session.clock);
        Ok(Self {
            args,
            stop: Arc::clone(&session.stop),
            progress: &session.progress,
            application,
            examinations: paths.into_iter().map(|path| Examination::begin(path, &mut observer)).collect(),
            observer,
            record: MtuRecord { server: server.to_string(), notes, ..MtuRecord::default() },
            server,
            begun: clock.now(),
            started: session.document.host.started.clone(),
            updated: clock.now(),
            clock,
            failure: None,
            unwritten: None,
        })
    }

    /// Probes until the end; returns the record, and why planned changes were not made.
    pub(super) fn run(mut self) -> Result<(MtuRecord, Option<Failure>), Failure> {
        let names: Vec<&str> = self.examinations.iter().map(|one| one.path.name.as_str()).collect();
        let until = if self.args.watch { ", until Ctrl-C" } else { "" };
        self.progress.line(format_args!("probing {} over {}{until}", self.server, names.join(", ")));
        self.progress.records.start("mtu", 0, &self.started, 0, self.args.interval.0);
        let ended = self.probe();
        // The changes are undone regardless of how a watch ended.
        let undone = if self.args.undo_at_end { self.undo() } else { Ok(()) };
        let unwritten = output::check_open().err().or(self.unwritten.take());
        undone.and(ended)?;
        // A watch may have undone all changes.
        if self.record.steps.iter().any(|step| step.done)
            && let Some(application) = &self.application
            && application.journal.exists()
        {
            let journal = application.journal.display();
            self.progress.line(format_args!(
                "the changes are in the journal {journal}; pathbench mtu --undo undoes them"
            ));
        }
        Ok((self.record, self.failure.or(unwritten)))
    }

    fn probe(&mut self) -> Result<(), Failure> {
        let (watches, interval) = (self.args.watch, self.args.interval.0);
        let pace = WatchPace { interval, larger_interval: interval.saturating_mul(LARGER_INTERVALS) };
        let plans: Vec<MtuPlan> = self.examinations.iter().map(|one| self.plan(one)).collect();
        let (clock, stop, end) = (Arc::clone(&self.clock), Arc::clone(&self.stop), AtomicBool::new(false));
        let (clock, stop, end) = (&clock, &stop, &end);
        thread::scope(|scope| {
            let (sender, events) = channel::<(usize, ProbeResult)>();
            for (index, plan) in plans.iter().enumerate() {
                let sender = sender.clone();
                scope.spawn(move || {
                    // The receiver may end before a watch does.
                    let mut sink = |at, event| drop(sender.send((index, Ok((at, event)))));
                    let ended = if watches {
                        watch_mtu(plan, pace, clock, end, &mut sink)
                    } else {
                        find_mtu(plan, clock, stop)
                            .map(|found| sink(clock.now(), MtuEvent::Examined(Box::new(found))))
                    };
                    if let Err(error) = ended {
                        drop(sender.send((index, Err(error))));
                    }
                });
            }
            drop(sender);
            let ended = self.receive(&events);
            end.store(true, Ordering::Release);
            ended
        })
    }

    fn plan(&self, one: &Examination) -> MtuPlan {
        MtuPlan {
            server: one.path.server,
            token: self.args.connection.token.clone(),
            path: UdpPath { interface: Some(one.path.interface.clone()), local: Some(one.path.local) },
            bounds: MtuBounds::default(),
        }
    }

    /// Receives results until all paths are examined, or until the end of the watch.
    fn receive(&mut self, events: &Receiver<(usize, ProbeResult)>) -> Result<(), Failure> {
        let until = self.args.duration.map(|time| self.begun + time.0);
        let mut shown = false;
        loop {
            match events.recv_timeout(TICK) {
                Ok((index, result)) => self.add(index, result)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if !self.args.watch {
                continue;
            }
            let now = self.clock.now();
            let stopped = self.stop.load(Ordering::Relaxed) || self.unwritten.is_some();
            if stopped || until.is_some_and(|until| now >= until) {
                break;
            }
            if !shown && !self.examinations.iter().any(|one| one.is_awaited) {
                self.show_first()?;
                shown = true;
            }
            if shown && now.duration_since(self.updated) >= self.args.interval.0 {
                self.updated = now;
                for index in 0..self.examinations.len() {
                    self.diagnose(index, false)?;
                }
                for path in &self.record.paths {
                    self.report(path);
                }
            }
        }
        if shown { Ok(()) } else { self.show_first() }
    }

    /// Corrects and shows all paths once each has a result.
    fn show_first(&mut self) -> Result<(), Failure> {
        let applies = self.application.is_some();
        let record = |one: &mut Examination| {
            one.update_connections(&mut self.observer);
            one.record(&self.record.server, applies)
        };
        self.record.paths = self.examinations.iter_mut().map(record).collect();
        for path in &self.record.paths {
            self.report(path);
        }
        self.verdict()?;
        self.correct_all();
        self.unwritten = self.show().err();
        // A single examination is shown and saved even if its changes failed.
        let failure = if self.args.watch { self.failure.take() } else { None };
        failure.map_or(Ok(()), Err)
    }

    /// Returns an error if no path answered.
    fn verdict(&self) -> Result<(), Failure> {
        if self.examinations.iter().any(Examination::is_answered) {
            return Ok(());
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(Failure::failed("stopped by the user before anything was measured"));
        }
        let mut lines = vec![format!("{} answered on no path", self.server)];
        lines.extend(self.examinations.iter().map(Examination::line));
        let refused = self.examinations.iter().any(Examination::is_refused);
        let exit = if refused { Exit::Refused } else { Exit::Unreachable };
        Err(Failure { exit, message: lines.join("\n") })
    }

    /// Corrects the kernel's state of all paths, or plans the correction.
    fn correct_all(&mut self) {
        // Paths that share a route also share its change.
        let mut known: Vec<PlannedStep> = Vec::new();
        let record = &mut self.record;
        for (one, path) in self.examinations.iter().zip(&record.paths) {
            if let Some(application) = &mut self.application {
                let corrected = application.correct(one, path, &mut self.observer, &*self.clock);
                record.steps.extend(corrected.steps);
                record.notes.extend(corrected.notes);
                self.failure = self.failure.take().or(corrected.failure);
                continue;
            }
            match remedy::plan_remedy(one, path, &mut self.observer) {
                Ok(plan) => {
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

    /// Prints the summary or the commands; with --json the document follows at the end.
    fn show(&self) -> Result<(), Failure> {
        if self.args.print {
            if self.record.steps.is_empty() {
                self.progress.line("the kernel needs no correction");
            }
            output::print(&terminal::mtu_script(&self.record.steps))
        } else if self.keeps_standard_output() {
            Ok(())
        } else {
            output::print(&terminal::mtu(&self.record, style()))
        }
    }

    fn add(&mut self, index: usize, result: ProbeResult) -> Result<(), Failure> {
        let one = &mut self.examinations[index];
        let is_first = std::mem::replace(&mut one.is_awaited, false);
        let before = one.mtu_bytes();
        let path = one.path.name.clone();
        let at = match result {
            Ok((at, MtuEvent::Examined(now) | MtuEvent::Changed { now, .. })) => {
                one.found = Some(Ok(*now));
                Some(at)
            }
            Ok((at, MtuEvent::Away { reason })) => {
                one.found = None;
                let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                self.progress.line(format_args!("{path}: the server does not answer any more{reason}"));
                Some(at)
            }
            Err(error) => {
                one.found = Some(Err(error));
                None
            }
        };
        if !self.args.watch {
            self.progress.line(one.line());
        }
        let Some(at) = at.filter(|_| !is_first) else { return Ok(()) };
        let now = one.mtu_bytes();
        for (direction, from_bytes, to_bytes) in
            [("upload", before[0], now[0]), ("download", before[1], now[1])]
        {
            if from_bytes != to_bytes {
                let t_ms = at.ms_from(self.begun);
                let (path, direction) = (path.clone(), direction.to_owned());
                let change = MtuChange { t_ms, path, direction, from_bytes, to_bytes };
                self.print_line(mtu_change(&change, style()).trim_end());
                self.progress.records.send(|| LiveRecord::MtuChange(change.clone()));
                self.record.changes.push(change);
            }
        }
        if before == now { Ok(()) } else { self.diagnose(index, true) }
    }

    /// Compares a path's MTU with the kernel's state, and corrects the state with --apply.
    fn diagnose(&mut self, index: usize, is_changed: bool) -> Result<(), Failure> {
        let one = &mut self.examinations[index];
        if one.found.is_none() {
            return Ok(());
        }
        let was_stuck = !one.stuck.is_empty();
        one.update_connections(&mut self.observer);
        one.state = self.observer.state(&host_path(&one.path));
        let applies = self.application.is_some();
        let record = one.record(&self.record.server, applies);
        let newly_stuck = !was_stuck && !one.stuck.is_empty();
        if newly_stuck {
            let stuck = record.disagreements.iter().filter(|words| words.contains("is stuck"));
            stuck.for_each(|words| self.print_line(words));
        }
        let is_wrong = path_mtu::target_bytes(&record)
            .is_ok_and(|target_bytes| path_mtu::needs_correction(&record, target_bytes));
        let advice = record.advice.clone();
        if let Some(slot) = self.record.paths.get_mut(index) {
            *slot = record;
        }
        if is_wrong && applies {
            return self.correct(index);
        }
        if is_wrong && (is_changed || newly_stuck) {
            for words in &advice {
                self.print_line(words);
            }
        }
        Ok(())
    }

    fn correct(&mut self, index: usize) -> Result<(), Failure> {
        let Some(application) = &mut self.application else { return Ok(()) };
        let (one, path) = (&self.examinations[index], &self.record.paths[index]);
        let corrected = application.correct(one, path, &mut self.observer, &*self.clock);
        let done: Vec<MtuStep> = corrected.steps.into_iter().filter(|step| step.done).collect();
        for step in &done {
            self.print_line(&step.command);
        }
        self.record.steps.extend(done);
        for note in corrected.notes {
            // A repeated note is printed once.
            if !self.record.notes.contains(&note) {
                self.progress.line(&note);
                self.record.notes.push(note);
            }
        }
        match corrected.failure {
            Some(failure) if failure.exit == Exit::HostCannot => Err(failure),
            Some(failure) => {
                output::report_failure("pathbench", &failure);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Whether standard output holds the document or live records, and no lines.
    const fn keeps_standard_output(&self) -> bool {
        self.args.output.json || self.args.output.json_stream
    }

    /// Sends the state of a path as a live record.
    fn report(&self, path: &PathMtu) {
        self.progress.records.send(|| {
            LiveRecord::MtuPath(LiveMtuPath {
                t_ms: self.clock.now().ms_from(self.begun),
                path: path.name.clone(),
                upload_bytes: path.upload.mtu_bytes,
                download_bytes: path.download.mtu_bytes,
                disagreements: path.disagreements.clone(),
            })
        });
    }

    /// Prints a line on standard output, or as progress.
    fn print_line(&mut self, line: &str) {
        if self.keeps_standard_output() {
            self.progress.line(line);
        } else if self.unwritten.is_none() {
            self.unwritten = output::print(&format!("{line}\n")).err();
        }
    }

    fn undo(&mut self) -> Result<(), Failure> {
        let Some(application) = self.application.as_mut().filter(|one| one.journal.exists()) else {
            return Ok(());
        };
        let undone = application.undo(false);
        undone.restored.lines().for_each(|line| self.print_line(line));
        undone.ending?;
        self.record.notes.push("the changes were undone at the end of the watch".to_owned());
        Ok(())
    }
}
