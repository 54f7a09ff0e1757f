//! The watch: applies the part of the set-up of an interface that comes, and undoes the part of one that goes.

use super::application::SetupApplication;
use super::arguments::SetupArgs;
use super::presentation;
use crate::live;
use pathbench_host::change::UndoOutcome;
use pathbench_host::link_events::LinkEventStream;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::{output, signals};
use pathbench_record::time::SharedClock;
use pathbench_record::units::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeSet;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// A signal ends the watch within this time.
const SIGNAL_LATENCY_MS: i64 = 100;
/// Changes that follow an event, such as the routes of a DHCP client, are noticed within this number of turns.
const TURNS_PER_CHECK: u32 = 10;

pub(super) fn watch(
    application: &mut SetupApplication,
    args: &SetupArgs,
    clock: &SharedClock,
) -> Result<Exit, Failure> {
    let stop = signals::stop_flag(live::restore_terminal);
    let mut events = LinkEventStream::subscribe().map_err(Failure::failed)?;
    let watched = follow(application, &mut events, args.duration, &stop, clock);
    let undone = if args.undo_at_end {
        let undone = application.undo(false);
        output::print(&undone.restored).and(undone.ending)
    } else {
        Ok(())
    };
    undone.and(watched).map(|()| Exit::Done)
}

fn follow(
    application: &mut SetupApplication,
    events: &mut LinkEventStream,
    duration: Option<Span>,
    stop: &AtomicBool,
    clock: &SharedClock,
) -> Result<(), Failure> {
    let begun = clock.now();
    // A host that cannot be set up at all is reported at once; later failures may pass with the next change.
    let plan = application.apply()?;
    output::print(&presentation::script(&plan, true))?;
    let mut known: BTreeSet<String> = plan.notes.into_iter().collect();
    let (mut turns, mut had_journal) = (0, application.has_journal());
    let is_over = || duration.is_some_and(|duration| clock.now().duration_since(begun) >= duration.0);
    while !stop.load(Ordering::Relaxed) && !is_over() {
        turns += 1;
        let changed = wait(events)?;
        if !changed && turns < TURNS_PER_CHECK {
            continue;
        }
        turns = 0;
        if had_journal && !application.has_journal() {
            output::note("another process has undone the changes: the watch ends");
            return Ok(());
        }
        for line in check(application, &mut known) {
            output::print(&format!("{line}\n"))?;
        }
        had_journal = application.has_journal();
    }
    Ok(())
}

/// Waits for a change of links or addresses; returns whether there was one.
fn wait(events: &mut LinkEventStream) -> Result<bool, Failure> {
    let time = Timespec { tv_sec: 0, tv_nsec: SIGNAL_LATENCY_MS * 1_000_000 };
    let mut polled = [PollFd::from_borrowed_fd(events.as_fd(), PollFlags::IN)];
    // A signal ends the wait early, which does no harm.
    let _interrupted = poll(&mut polled, Some(&time));
    Ok(!events.receive().map_err(Failure::failed)?.is_empty())
}

/// The lines about the changes that were made; each note is printed once.
fn check(application: &mut SetupApplication, known: &mut BTreeSet<String>) -> Vec<String> {
    let mut lines = Vec::new();
    match application.take_back() {
        Ok(report) => {
            for step in report.steps.iter().filter(|step| step.outcome == UndoOutcome::Restored) {
                lines.extend(step.commands.iter().cloned());
            }
        }
        Err(failure) => note_once(known, &failure.message),
    }
    match application.apply() {
        Ok(plan) => {
            for step in &plan.steps {
                lines.push(format!("# {}", step.reason));
                lines.extend(step.change.commands.iter().cloned());
            }
            plan.notes.iter().for_each(|note| note_once(known, note));
        }
        Err(failure) => note_once(known, &failure.message),
    }
    lines
}

fn note_once(known: &mut BTreeSet<String>, note: &str) {
    if known.insert(note.to_owned()) {
        output::note(note);
    }
}
