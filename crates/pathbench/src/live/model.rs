//! The state of the screen: live records and keys in, no terminal.

use super::keys::Command;
use pathbench_record::event::Event;
use pathbench_record::live::{LiveInterval, LiveProbedPath, LiveRecord, LiveRunEnd, LiveRunStart, RunStage};
use pathbench_record::text::printable;
use std::collections::VecDeque;

/// Intervals kept of a run: five minutes of five in a second.
const MOST_INTERVALS: usize = 1500;
/// Runs whose intervals are kept.
const MOST_RUNS_WITH_INTERVALS: usize = 50;
const MOST_EVENTS: usize = 200;
/// Longest text of a record on the screen, in characters.
const MOST_CHARACTERS: usize = 200;

#[derive(Debug, Default)]
pub(super) struct Model {
    data: Data,
    /// The state when the display was paused.
    paused: Option<Data>,
    /// Index of the run on display; `None`: the one that began last.
    selected: Option<usize>,
    pub(super) shows_help: bool,
    /// Whether the user has ended the command.
    pub(super) is_stopping: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Data {
    pub(super) name: String,
    pub(super) planned: usize,
    pub(super) runs: Vec<RunDisplay>,
    pub(super) notes: VecDeque<String>,
    pub(super) probes: Vec<LiveProbedPath>,
}

#[derive(Debug, Clone)]
pub(super) struct RunDisplay {
    pub(super) start: LiveRunStart,
    pub(super) stage: Option<RunStage>,
    pub(super) intervals: VecDeque<LiveInterval>,
    pub(super) events: VecDeque<Event>,
    pub(super) end: Option<LiveRunEnd>,
}

impl Model {
    pub(super) fn add(&mut self, record: LiveRecord) {
        let data = &mut self.data;
        match record {
            LiveRecord::Start(start) => {
                data.name = shown(&start.name);
                data.planned = start.runs as usize;
            }
            LiveRecord::RunStart(start) => data.begin(start),
            LiveRecord::RunStage(stage) => {
                if let Some(run) = data.run(&stage.run) {
                    run.stage = Some(stage.stage);
                }
            }
            LiveRecord::Interval(interval) => {
                if let Some(run) = data.run(&interval.run) {
                    push(&mut run.intervals, interval, MOST_INTERVALS);
                }
            }
            LiveRecord::Event(event) => {
                if let Some(run) = data.run(&event.run) {
                    push(&mut run.events, event, MOST_EVENTS);
                }
            }
            LiveRecord::RunEnd(end) => {
                if let Some(run) = data.run(&end.run) {
                    run.end = Some(*end);
                }
            }
            LiveRecord::ProbeInterval(probes) => data.probes = probes.paths,
            LiveRecord::Note(note) => push(&mut data.notes, shown(&note.text), MOST_EVENTS),
            LiveRecord::Omitted(omitted) => {
                push(&mut data.notes, format!("{} records left out", omitted.records), MOST_EVENTS);
            }
            LiveRecord::MtuPath(_)
            | LiveRecord::MtuChange(_)
            | LiveRecord::Result(_)
            | LiveRecord::End(_) => {}
        }
    }

    pub(super) fn apply(&mut self, command: Command) {
        let last = self.data().runs.len().saturating_sub(1);
        let current = self.selected.unwrap_or(last).min(last);
        match command {
            Command::Quit => self.is_stopping = true,
            Command::Pause => {
                self.paused = if self.paused.is_some() { None } else { Some(self.data.clone()) };
            }
            Command::Previous => self.selected = Some(current.saturating_sub(1)),
            // After the last run, the display follows the newest again.
            Command::Next => self.selected = Some(current + 1).filter(|next| *next < last),
            Command::Select(number) => self.selected = Some(number - 1).filter(|index| *index < last),
            Command::Help => self.shows_help = !self.shows_help,
            Command::Close => self.shows_help = false,
        }
    }

    /// The state on display.
    pub(super) fn data(&self) -> &Data {
        self.paused.as_ref().unwrap_or(&self.data)
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    pub(super) fn shown_run(&self) -> Option<(usize, &RunDisplay)> {
        let runs = &self.data().runs;
        let last = runs.len().checked_sub(1)?;
        let index = self.selected.unwrap_or(last).min(last);
        Some((index, &runs[index]))
    }
}

impl Data {
    fn begin(&mut self, mut start: LiveRunStart) {
        start.label = shown(&start.label);
        start.pattern = shown(&start.pattern);
        self.runs.push(RunDisplay {
            start,
            stage: None,
            intervals: VecDeque::new(),
            events: VecDeque::new(),
            end: None,
        });
        if let Some(old) = self.runs.len().checked_sub(MOST_RUNS_WITH_INTERVALS + 1) {
            self.runs[old].intervals = VecDeque::new();
        }
    }

    fn run(&mut self, id: &str) -> Option<&mut RunDisplay> {
        self.runs.iter_mut().rev().find(|run| run.start.run == id)
    }

    pub(super) fn finished_runs(&self) -> usize {
        self.runs.iter().filter(|run| run.end.is_some()).count()
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() == most {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// Text of a peer or file, without control characters.
pub(super) fn shown(text: &str) -> String {
    printable(text, MOST_CHARACTERS)
}
