//! The `foreign` and `path` probes of a `responsiveness` test, in threads of the client beside the loaded connection.

use super::observer::{ClientControl, ClientObserver, Connected, Progress};
use super::plan::{ClientPlan, PathProbes};
use super::run::{ClientOutcome, run_test};
use crate::datagram::{UdpPath, random_bytes};
use crate::probe::{ProbeOutcome, ProbePlan, ProbeSample, run_probes};
use crate::stream::{TICK, Update};
use pathbench_record::end::{EndRecord, TestId};
use pathbench_record::pattern::{PatternParameters, PingParameters};
use pathbench_record::response::{
    ForeignOpening, LoadProbe, PhaseWindow, ProbeAbsence, ProbeKind, ResponseRecord, ResponsivenessParameters,
};
use pathbench_record::time::{Clock, Timestamp};
use pathbench_transport::{QuicOptions, contain_panic, lock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// Longest time of a foreign test beyond its phase.
const OVERTIME: Duration = Duration::from_secs(5);

/// The probes beside the loaded connection, and their results.
struct ProbeThreads<'a> {
    plan: &'a ClientPlan,
    parameters: &'a ResponsivenessParameters,
    clock: &'a Arc<dyn Clock>,
    /// Zero of the phases.
    begun: OnceLock<Timestamp>,
    over: AtomicBool,
    results: Mutex<ResponseRecord>,
}

/// Runs a test. It always returns the client's record, even after an error.
pub fn run_client(plan: &ClientPlan, clock: &Arc<dyn Clock>, observer: &dyn ClientObserver) -> ClientOutcome {
    match &plan.parameters {
        PatternParameters::Responsiveness(parameters) if plan.parameters.validate().is_ok() => {
            run_with_probes(plan, parameters, clock, observer)
        }
        _ => run_test(plan, clock, observer),
    }
}

/// Runs the loaded test with the probes beside it, and adds their results to the client's record.
fn run_with_probes(
    plan: &ClientPlan,
    parameters: &ResponsivenessParameters,
    clock: &Arc<dyn Clock>,
    observer: &dyn ClientObserver,
) -> ClientOutcome {
    let threads = ProbeThreads {
        plan,
        parameters,
        clock,
        begun: OnceLock::new(),
        over: AtomicBool::new(false),
        results: Mutex::default(),
    };
    let windows = parameters.windows();
    let mut outcome = thread::scope(|scope| {
        // Set even if the loaded test panics, so that no thread outlives it.
        let _end = EndOfLoad(&threads.over);
        for window in &windows {
            let of_phase = || threads.guard(ProbeKind::Foreign, || threads.probe_foreign(*window));
            if let Err(error) =
                thread::Builder::new().name("foreign".to_owned()).spawn_scoped(scope, of_phase)
            {
                threads.leave_out(ProbeKind::Foreign, error.to_string());
            }
        }
        let of_paths = || threads.guard(ProbeKind::Path, || threads.probe_paths());
        if let Err(error) =
            thread::Builder::new().name("path probes".to_owned()).spawn_scoped(scope, of_paths)
        {
            threads.leave_out(ProbeKind::Path, error.to_string());
        }
        run_test(plan, clock, &Begin { inner: observer, begun: &threads.begun })
    });
    let found = threads.results.into_inner().unwrap_or_default();
    if let Some(response) = &mut outcome.client.response {
        response.probes.extend(found.probes);
        response.openings.extend(found.openings);
        response.openings.sort_by_key(|opening| opening.phase);
        response.absent.extend(found.absent);
    }
    outcome
}

struct EndOfLoad<'a>(&'a AtomicBool);

impl Drop for EndOfLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl ProbeThreads<'_> {
    fn guard(&self, kind: ProbeKind, work: impl FnOnce()) {
        if let Err(message) = contain_panic(work) {
            self.leave_out(kind, format!("its thread panicked ({message}); please report it"));
        }
    }

    fn leave_out(&self, probe: ProbeKind, reason: String) {
        let absent = &mut lock(&self.results).absent;
        if !absent.iter().any(|known| known.probe == probe) {
            absent.push(ProbeAbsence { probe, reason });
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Waits for the time `since` the begin of the phases; `None` if the test ends earlier.
    fn wait_until(&self, since: Duration) -> Option<Timestamp> {
        loop {
            let now = self.clock.now();
            let at = self.begun.get().map(|begun| *begun + since);
            if at.is_some_and(|at| now >= at) {
                return self.begun.get().copied();
            }
            if self.is_over() {
                return None;
            }
            self.clock.sleep_until(at.map_or(now + TICK, |at| at.min(now + TICK)));
        }
    }

    /// Opens a connection in the measured part of the phase and sends requests on it until the phase ends.
    fn probe_foreign(&self, window: PhaseWindow) {
        let Some(begun) = self.wait_until(window.measured_from) else { return };
        let interval = self.parameters.interval;
        let measured = window.until.saturating_sub(window.measured_from);
        let count = measured.as_nanos().div_ceil(interval.as_nanos().max(1));
        let ping = PingParameters {
            count: u32::try_from(count).unwrap_or(u32::MAX).max(1),
            warm_up: 0,
            interval,
            request_bytes: self.parameters.probe_bytes,
            response_bytes: self.parameters.probe_bytes,
            ..PingParameters::default()
        };
        let plan = ClientPlan {
            test: TestId(random_bytes()),
            parameters: PatternParameters::Ping(ping),
            path_probes: None,
            quic: QuicOptions { qlog: None, ..self.plan.quic.clone() },
            ..self.plan.clone()
        };
        let until = begun + window.until;
        let limit = ForeignLimit { probes: self, until };
        let outcome = run_test(&plan, self.clock, &limit);
        let error = outcome.error.map(|error| error.to_string());
        let mut results = lock(&self.results);
        let took = outcome.client.handshake.filter(|_| !outcome.client.streams.is_empty());
        results.openings.push(ForeignOpening { phase: window.phase, took, error: error.clone() });
        let first = results.probes.iter().filter(|probe| probe.kind == ProbeKind::Foreign).count() as u32;
        results.probes.extend(outcome.client.messages.iter().map(|message| LoadProbe {
            kind: ProbeKind::Foreign,
            path: None,
            sequence: first.saturating_add(message.sequence),
            due: message.due,
            answered: message.answered,
        }));
        drop(results);
        if let (None, Some(error)) = (took, error) {
            self.leave_out(ProbeKind::Foreign, format!("phase {}: {error}", window.phase.name()));
        }
    }

    fn probe_paths(&self) {
        let Some(PathProbes { server, paths }) = &self.plan.path_probes else {
            self.leave_out(ProbeKind::Path, "no UDP address of the server is known".to_owned());
            return;
        };
        if self.wait_until(Duration::ZERO).is_none() {
            return;
        }
        let plan = ProbePlan {
            server: *server,
            token: self.plan.token.clone(),
            paths: paths
                .iter()
                .map(|path| UdpPath { interface: path.interface.clone(), local: path.local })
                .collect(),
            interval: self.parameters.interval,
        };
        let refused: Mutex<Option<String>> = Mutex::default();
        let sink = |sample: ProbeSample| {
            let answered = match sample.outcome {
                ProbeOutcome::Answered { rtt } => Some(sample.sent_at + rtt),
                ProbeOutcome::Lost => None,
                ProbeOutcome::Refused { error } => {
                    *lock(&refused) = Some(error);
                    return;
                }
            };
            lock(&self.results).probes.push(LoadProbe {
                kind: ProbeKind::Path,
                path: paths.get(sample.path).map(|path| path.name.clone()),
                sequence: sample.sequence,
                due: sample.sent_at,
                answered,
            });
        };
        if let Err(error) = run_probes(&plan, self.clock, &self.over, &sink) {
            self.leave_out(ProbeKind::Path, error.to_string());
        } else {
            let is_empty = !lock(&self.results).probes.iter().any(|probe| probe.kind == ProbeKind::Path);
            if let Some(reason) = lock(&refused).take().filter(|_| is_empty) {
                self.leave_out(ProbeKind::Path, reason);
            }
        }
    }
}

/// Passes everything on, and keeps the time of the first byte.
struct Begin<'a> {
    inner: &'a dyn ClientObserver,
    begun: &'a OnceLock<Timestamp>,
}

impl ClientObserver for Begin<'_> {
    fn on_connected(&self, connected: &Connected) {
        self.inner.on_connected(connected);
    }

    fn on_first_byte(&self, at: Timestamp) {
        // Called once.
        let _ = self.begun.set(at);
        self.inner.on_first_byte(at);
    }

    fn on_progress(&self, progress: &Progress) {
        self.inner.on_progress(progress);
    }

    fn wants_updates(&self) -> bool {
        self.inner.wants_updates()
    }

    fn on_update(&self, update: Update, record_so_far: &dyn Fn() -> Option<EndRecord>) {
        self.inner.on_update(update, record_so_far);
    }

    fn control(&self) -> ClientControl {
        self.inner.control()
    }
}

/// Ends a foreign test with its phase, or with the loaded test.
struct ForeignLimit<'a> {
    probes: &'a ProbeThreads<'a>,
    until: Timestamp,
}

impl ClientObserver for ForeignLimit<'_> {
    fn control(&self) -> ClientControl {
        let now = self.probes.clock.now();
        if now >= self.until + OVERTIME {
            ClientControl::Abort
        } else if now >= self.until || self.probes.is_over() {
            ClientControl::Stop
        } else {
            ClientControl::Continue
        }
    }
}
