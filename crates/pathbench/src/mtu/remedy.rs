//! Corrections of the kernel's path MTU: planned, made step by step with a journal, verified, and undone.

use super::diagnosis;
use super::examination::{Examination, host_path};
use crate::exit::Failure;
use crate::output;
use pathbench_host::path_mtu::{
    KernelPathState, LiveConnection, PathObserver, Plan, PlannedStep, Remedy, RemedyError, UndoOutcome, plan,
};
use pathbench_record::document::{MtuStep, PathMtu};
use pathbench_record::time::{Clock, Timestamp};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for stuck connections to recover.
const PATIENCE: Duration = Duration::from_secs(2);
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// A subflow that makes progress for this long has recovered.
const LASTING: Duration = Duration::from_millis(200);
/// `TCP_ESTABLISHED` of `net/tcp_states.h`.
const ESTABLISHED: u8 = 1;
/// The handshake's own byte counts as acknowledged, too.
const HANDSHAKE_BYTES: u64 = 1;

#[derive(Debug)]
pub(super) struct Application {
    remedy: Remedy,
    journal: PathBuf,
}

#[derive(Debug, Default)]
pub(super) struct Corrected {
    /// Done or not.
    pub(super) steps: Vec<MtuStep>,
    pub(super) notes: Vec<String>,
    /// Why a step is not done.
    pub(super) failure: Option<Failure>,
}

#[derive(Debug)]
pub(super) struct Undone {
    /// The commands that do the same as what was restored, a line each.
    pub(super) restored: String,
    pub(super) ending: Result<(), Failure>,
}

impl Corrected {
    /// Whether anything was changed.
    pub(super) fn is_changed(&self) -> bool {
        self.steps.iter().any(|step| step.done)
    }
}

impl Application {
    pub(super) fn open(journal: &Path) -> Result<Self, Failure> {
        let remedy = Remedy::open(journal).map_err(|error| failure(&error))?;
        Ok(Self { remedy, journal: journal.to_owned() })
    }

    /// Corrects one path, from the kernel's present state.
    pub(super) fn correct(
        &mut self,
        examination: &Examination,
        record: &PathMtu,
        observer: &mut PathObserver,
        clock: &dyn Clock,
    ) -> Corrected {
        let mut corrected = Corrected::default();
        let name = &examination.path.name;
        let planned = match planned(examination, record, observer) {
            Ok((state, plan)) => {
                corrected.notes.extend(plan.notes.iter().map(|note| format!("{name}: {note}")));
                (state.is_some()).then_some(plan)
            }
            Err(note) => {
                corrected.notes.push(note);
                None
            }
        };
        let Some(plan) = planned else { return corrected };
        let begun = clock.now();
        for (index, step) in plan.steps.iter().enumerate() {
            // One at a time, so that it is known which were made.
            let one = Plan { steps: vec![step.clone()], notes: Vec::new() };
            match self.remedy.apply(&one) {
                Ok(()) => corrected.steps.extend(records(name, &one.steps, true)),
                Err(error) => {
                    corrected.steps.extend(records(name, &plan.steps[index..], false));
                    corrected.failure = Some(failure(&error));
                    break;
                }
            }
        }
        if corrected.is_changed() {
            corrected.notes.extend(verify(examination, observer, clock, begun));
        }
        corrected
    }

    /// Undoes all changes in the journal, and reports on stderr what is not restored.
    pub(super) fn undo(&mut self, force: bool) -> Undone {
        let report = match self.remedy.undo(force) {
            Ok(report) => report,
            Err(error) => return Undone { restored: String::new(), ending: Err(failure(&error)) },
        };
        if report.steps.is_empty() {
            output::note(format_args!("nothing to undo: there is no journal {}", self.journal.display()));
        }
        let mut restored = String::new();
        for step in &report.steps {
            let commands = step.commands.join("; ");
            match &step.outcome {
                UndoOutcome::Restored => {
                    restored.extend(step.commands.iter().map(|line| format!("{line}\n")));
                }
                UndoOutcome::Nothing => {}
                UndoOutcome::Gone => output::note(format_args!("gone with its interface: {commands}")),
                UndoOutcome::Superseded(how) => output::note(format_args!("left as it is: {how}")),
                UndoOutcome::Changed(how) if commands.is_empty() => {
                    output::note(format_args!("not undone: {how}"));
                }
                UndoOutcome::Changed(how) => output::note(format_args!("not undone: {commands}: {how}")),
            }
        }
        let incomplete = || {
            Failure::failed(format!(
                "not everything was undone, because another program has changed it since; undo it nevertheless with \
                 pathbench mtu --undo --force; until then the journal stays: {}",
                self.journal.display()
            ))
        };
        Undone { restored, ending: if report.is_complete() { Ok(()) } else { Err(incomplete()) } }
    }

    pub(super) fn journal(&self) -> &Path {
        &self.journal
    }
}

/// The plan for a path, and the kernel's state that it follows from; no state where there is nothing to do.
pub(super) fn planned(
    examination: &Examination,
    record: &PathMtu,
    observer: &mut PathObserver,
) -> Result<(Option<KernelPathState>, Plan), String> {
    // Probing took seconds, and another path's changes may have touched the same route.
    let Ok(state) = observer.state(&host_path(&examination.path)) else { return Ok((None, Plan::default())) };
    let plan = plan_for(examination, &state, record)?;
    let state = (!plan.steps.is_empty()).then_some(state);
    Ok((state, plan))
}

fn failure(error: &RemedyError) -> Failure {
    if error.is_host_unable() {
        return Failure::host_cannot(format!(
            "{error}\nthis needs CAP_NET_ADMIN: run it as root (sudo), or let an administrator run the commands that --print \
             prints"
        ));
    }
    Failure::failed(error)
}

/// Whether the kernel uses the new MTU and stuck connections recover, as notes.
fn verify(
    examination: &Examination,
    observer: &mut PathObserver,
    clock: &dyn Clock,
    begun: Timestamp,
) -> Vec<String> {
    let path = host_path(&examination.path);
    let name = &examination.path.name;
    let mut notes = Vec::new();
    match observer.state(&path) {
        Ok(state) => notes.push(format!(
            "{name}: the kernel uses a path MTU of {} bytes to the server now",
            state.effective_mtu_bytes()
        )),
        Err(error) => notes.push(format!("{name}: {error}")),
    }
    // A plain TCP connection is left to its retransmission timer.
    let stuck = examination.stuck.iter().filter(|stuck| stuck.subflow.is_some());
    let mut waiting: Vec<Recovery<'_>> = stuck.map(|stuck| Recovery { stuck, seen: None }).collect();
    while !waiting.is_empty() {
        let now = observer.connections(&path).unwrap_or_default();
        let at = clock.now();
        waiting.retain_mut(|recovery| {
            let since = recovery.check(&now, at);
            notes.extend(since.map(|since| {
                let (local, remote) = (recovery.stuck.local, recovery.stuck.remote);
                let seconds = since.since(begun).as_secs_f64();
                format!(
                    "{name}: the connection {local} → {remote} carries data over this path again, after {seconds:.2} s"
                )
            }));
            since.is_none()
        });
        if at.since(begun) >= PATIENCE {
            break;
        }
        clock.sleep_until(at + CHECK_INTERVAL);
    }
    notes.extend(waiting.into_iter().map(|recovery| {
        format!(
            "{name}: the connection {} → {} carried nothing over this path within {} s",
            recovery.stuck.local,
            recovery.stuck.remote,
            PATIENCE.as_secs()
        )
    }));
    notes
}

/// A connection with a stuck subflow, until a subflow of it on the same path makes progress.
struct Recovery<'a> {
    stuck: &'a LiveConnection,
    /// The cookie of a subflow that makes progress, and since when.
    seen: Option<(u64, Timestamp)>,
}

impl Recovery<'_> {
    /// Takes in the present connections; returns since when the connection makes progress, once that has lasted. A
    /// subflow that the peer resets at once does not count.
    fn check(&mut self, now: &[LiveConnection], at: Timestamp) -> Option<Timestamp> {
        let going = now.iter().find(|one| self.is_on(one)).map(|one| one.cookie);
        self.seen = match (going, self.seen) {
            (Some(cookie), Some((known, since))) if cookie == known => Some((known, since)),
            (Some(cookie), _) => Some((cookie, at)),
            (None, _) => None,
        };
        self.seen.map(|(_, since)| since).filter(|since| at.since(*since) >= LASTING)
    }

    fn is_on(&self, one: &LiveConnection) -> bool {
        let token = |one: &LiveConnection| one.subflow.map(|own| own.token);
        let before = if one.is_same_as(self.stuck) { self.stuck.bytes_acked } else { HANDSHAKE_BYTES };
        one.state == ESTABLISHED && token(one) == token(self.stuck) && one.bytes_acked > before
    }
}

/// The changes for one path, from the kernel's present state; `Err`: why there can be none.
pub(super) fn plan_for(
    examination: &Examination,
    state: &KernelPathState,
    record: &PathMtu,
) -> Result<Plan, String> {
    if examination.found.is_none() || !examination.is_answered() {
        return Ok(Plan::default());
    }
    let target = diagnosis::target_bytes(record)?;
    let stuck = &examination.stuck;
    let needs_route =
        record.kernel.as_ref().is_some_and(|kernel| diagnosis::needs_route(record, kernel, target));
    if !needs_route && stuck.is_empty() {
        return Ok(Plan::default());
    }
    let has_icmp = !diagnosis::is_path_silent(record);
    // The kernel's PMTU exception expires after some minutes. Without new ICMP messages the route has to replace it.
    let lasting = KernelPathState { cached: state.cached.filter(|_| has_icmp), ..state.clone() };
    plan(&lasting, target, stuck).map_err(|error| format!("{}: {error}", examination.path.name))
}

/// The records of a path's steps, a command each.
pub(super) fn records(path: &str, steps: &[PlannedStep], done: bool) -> Vec<MtuStep> {
    let of_step = |step: &PlannedStep| {
        let last = step.commands.len().saturating_sub(1);
        let undo_of = |index: usize| {
            let rest = step.undo_commands.get(index..).unwrap_or_default();
            if index == last { rest.join("; ") } else { rest.first().cloned().unwrap_or_default() }
        };
        let record = |(index, command): (usize, &String)| MtuStep {
            path: path.to_owned(),
            command: command.clone(),
            undo: undo_of(index),
            done,
        };
        step.commands.iter().enumerate().map(record).collect::<Vec<_>>()
    };
    steps.iter().flat_map(of_step).collect()
}

/// The commands for a shell, and in comments the commands that undo them, the last one first.
pub(super) fn script(steps: &[MtuStep]) -> String {
    let mut lines = Vec::new();
    let mut path = None;
    for step in steps {
        if path != Some(&step.path) {
            lines.push(format!("# path {}", step.path));
            path = Some(&step.path);
        }
        lines.push(step.command.clone());
    }
    let undoing: Vec<&str> =
        steps.iter().rev().map(|step| step.undo.as_str()).filter(|undo| !undo.is_empty()).collect();
    if !undoing.is_empty() {
        lines.push("# undo:".to_owned());
        lines.extend(undoing.into_iter().map(|line| format!("# {line}")));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_host::path_mtu::Subflow;

    fn subflow(cookie: u64, state: u8, bytes_acked: u64) -> LiveConnection {
        LiveConnection {
            local: "10.83.1.1:40000".parse().unwrap(),
            remote: "10.83.0.2:4433".parse().unwrap(),
            cookie,
            interface: None,
            subflow: Some(Subflow { token: 7, local_id: 2 }),
            state,
            pmtu_bytes: 1500,
            mss_bytes: 1448,
            advertised_mss_bytes: 1448,
            backoff: 0,
            unacked_segments: 3,
            retransmitted_segments: 0,
            bytes_acked,
            bytes_sent: bytes_acked,
            since_last_ack_ms: 0,
            cwnd_segments: 10,
            rto_us: 200_000,
        }
    }

    /// When a stuck connection is said to go on, by what is seen each 50 ms.
    fn goes_on(seen: &[LiveConnection]) -> Option<u64> {
        let stuck = subflow(1, ESTABLISHED, 1000);
        let mut recovery = Recovery { stuck: &stuck, seen: None };
        seen.iter().zip(0_u64..).find_map(|(one, look)| {
            let at = Timestamp::from_nanos(look * 50_000_000);
            let since = recovery.check(std::slice::from_ref(one), at)?;
            Some(since.as_nanos() / 1_000_000)
        })
    }

    #[test]
    fn a_connection_has_recovered_when_it_makes_progress_for_a_while() {
        const CLOSING: u8 = 11;
        let stuck = subflow(1, ESTABLISHED, 1000);
        let opening = subflow(2, ESTABLISHED, 1);
        let new = subflow(2, ESTABLISHED, 5000);
        assert_eq!(goes_on(&vec![stuck.clone(); 40]), None, "nothing is acknowledged");
        // The old one's last bytes, when it is closed.
        assert_eq!(goes_on(&vec![subflow(1, CLOSING, 2000); 40]), None);
        assert_eq!(goes_on(&vec![subflow(1, ESTABLISHED, 2000); 40]), Some(0), "by a retransmission");
        let comes = [vec![stuck.clone(), opening.clone()], vec![new.clone(); 10]].concat();
        assert_eq!(goes_on(&comes), Some(100));
        // The peer resets it.
        let comes_and_goes = [vec![stuck.clone()], vec![new.clone(); 3], vec![stuck; 30]].concat();
        assert_eq!(goes_on(&comes_and_goes), None);
        // Another connection's subflow is none of this one's.
        let other = LiveConnection { subflow: Some(Subflow { token: 8, local_id: 2 }), ..new };
        assert_eq!(goes_on(&vec![other; 40]), None);
    }

    fn step(path: &str, command: &str, undo: &str) -> MtuStep {
        MtuStep { path: path.to_owned(), command: command.to_owned(), undo: undo.to_owned(), done: false }
    }

    #[test]
    fn a_script_corrects_and_names_the_undo_in_reverse_order() {
        let steps = [
            step(
                "wlan",
                "ip route add 10.0.2.1 dev wlan table 1001 mtu 1500",
                "ip route delete 10.0.2.1 table 1001",
            ),
            step("wlan", "ip mptcp endpoint delete id 2", ""),
            step("wlan", "ip mptcp endpoint add 10.0.1.2 id 2 subflow", ""),
            step("lte", "ip route replace default dev lte mtu 1400", "ip route replace default dev lte"),
        ];
        assert_eq!(
            script(&steps),
            "# path wlan\n\
         ip route add 10.0.2.1 dev wlan table 1001 mtu 1500\n\
         ip mptcp endpoint delete id 2\n\
         ip mptcp endpoint add 10.0.1.2 id 2 subflow\n\
         # path lte\n\
         ip route replace default dev lte mtu 1400\n\
         # undo:\n\
         # ip route replace default dev lte\n\
         # ip route delete 10.0.2.1 table 1001\n"
        );
        assert_eq!(script(&[]), "");
    }
}
