//! The live records of a running command (docs/live.md) and where they go: to no one, as NDJSON to standard output, or
//! to the screen.

mod chart;
mod keys;
mod model;
mod runs;
mod screen;
mod stream;
mod terminal;

pub(crate) use runs::{LiveRuns, path_name};
pub(crate) use terminal::restore as restore_terminal;

use pathbench_program::exit::{Exit, Failure};
use pathbench_program::{diagnostics, output};
use pathbench_record::document::{Reachability, ResultDocument};
use pathbench_record::live::{LiveEnd, LiveNote, LiveRecord, LiveResult, LiveStart};
use pathbench_record::time::SharedClock;
use pathbench_transport::lock;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stream::RecordStream;
use terminal::Screen;

/// The output of a command while it measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum LiveMode {
    /// Progress on standard error.
    #[default]
    Lines,
    /// `--json-stream`: live records on standard output instead of the summary, progress on standard error.
    Stream,
    /// `--tui`: a screen on the terminal of standard error.
    Screen,
}

impl LiveMode {
    pub(crate) const fn from_flags(json_stream: bool, tui: bool) -> Self {
        match (json_stream, tui) {
            (true, _) => Self::Stream,
            (false, true) => Self::Screen,
            (false, false) => Self::Lines,
        }
    }
}

/// The screen while it is open, and the warnings to print when it is closed.
struct ScreenState {
    clock: SharedClock,
    stop: Arc<AtomicBool>,
    open: Mutex<(Option<Screen>, Vec<String>)>,
}

/// Accepts live records and never waits for their reader, except at the end of the command.
#[derive(Clone, Default)]
pub(crate) struct LiveOutput {
    stream: Option<Arc<RecordStream>>,
    screen: Option<Arc<ScreenState>>,
    interval: Duration,
}

impl LiveOutput {
    /// `stop` is set when standard output cannot be written.
    pub(crate) fn begin(mode: LiveMode, stop: &Arc<AtomicBool>, clock: &SharedClock) -> Self {
        match mode {
            LiveMode::Lines => Self::default(),
            LiveMode::Stream => {
                let stream = RecordStream::start(Arc::clone(stop));
                Self { stream: Some(Arc::new(stream)), interval: stream::INTERVAL, screen: None }
            }
            LiveMode::Screen if !output::stderr_is_terminal() => {
                output::note("pathbench: --tui: standard error is no terminal; progress as lines");
                Self::default()
            }
            LiveMode::Screen if diagnostics::take_standard_error() => {
                output::note(format_args!(
                    "pathbench: --tui: standard error takes the diagnostics, unless {} names a file; progress as lines",
                    diagnostics::FILE
                ));
                Self::default()
            }
            LiveMode::Screen => {
                let state =
                    ScreenState { clock: Arc::clone(clock), stop: Arc::clone(stop), open: Mutex::default() };
                Self { stream: None, screen: Some(Arc::new(state)), interval: terminal::INTERVAL }
            }
        }
    }

    /// Least length of the intervals of a run.
    pub(crate) const fn interval(&self) -> Duration {
        self.interval
    }

    /// Whether anything receives the records.
    pub(crate) const fn is_on(&self) -> bool {
        self.stream.is_some() || self.screen.is_some()
    }

    /// Whether the screen is used, so that nothing else may write to the terminal while it is open.
    pub(crate) const fn has_screen(&self) -> bool {
        self.screen.is_some()
    }

    /// Opens the screen, where the user wants it and the terminal can show it.
    fn open_screen(&self) {
        let Some(state) = &self.screen else { return };
        let mut open = lock(&state.open);
        if open.0.is_none() {
            match Screen::open(Arc::clone(&state.stop), Arc::clone(&state.clock)) {
                Ok(screen) => open.0 = Some(screen),
                Err(error) => output::note(format_args!("pathbench: --tui: {error}; progress as lines")),
            }
        }
    }

    /// Restores the terminal, and prints the warnings that came meanwhile.
    pub(crate) fn close_screen(&self) {
        let Some(state) = &self.screen else { return };
        let (screen, warnings) = std::mem::take(&mut *lock(&state.open));
        drop(screen);
        warnings.iter().for_each(output::note);
    }

    /// Takes a line that would go to standard error; false if the screen is not open.
    pub(crate) fn takes_line(&self, text: &impl ToString, is_warning: bool) -> bool {
        let Some(state) = &self.screen else { return false };
        let mut open = lock(&state.open);
        let (Some(screen), warnings) = &mut *open else { return false };
        screen.send(LiveRecord::Note(LiveNote { text: text.to_string() }));
        if is_warning {
            warnings.push(text.to_string());
        }
        true
    }

    /// Whether standard output is the stream, so that nothing else may write to it.
    pub(crate) const fn has_standard_output(&self) -> bool {
        self.stream.is_some()
    }

    pub(crate) fn send(&self, record: impl FnOnce() -> LiveRecord) {
        if let Some(stream) = &self.stream {
            stream.send(record());
        } else if let Some(state) = &self.screen
            && let Some(screen) = &lock(&state.open).0
        {
            screen.send(record());
        }
    }

    pub(crate) fn note(&self, text: &impl ToString) {
        self.send(|| LiveRecord::Note(LiveNote { text: text.to_string() }));
    }

    /// A scenario or command begins `runs` runs, with intervals of at least `interval`.
    pub(crate) fn start(&self, name: &str, seed: u64, started: &str, runs: usize, interval: Duration) {
        self.open_screen();
        self.send(|| {
            LiveRecord::Start(LiveStart {
                name: name.to_owned(),
                runs: runs as u32,
                seed,
                started: started.to_owned(),
                interval_ms: interval.as_secs_f64() * 1e3,
            })
        });
    }

    /// The result in `directory` is complete.
    pub(crate) fn result(&self, document: &ResultDocument, directory: &Path) {
        self.send(|| {
            LiveRecord::Result(LiveResult {
                name: document.scenario.name.clone(),
                directory: directory.display().to_string(),
                runs: document.runs.len() as u32,
                valid_runs: document.runs.iter().filter(|run| run.valid).count() as u32,
            })
        });
    }

    /// Sends the last record, and waits until standard output has accepted all records.
    /// `reachability` are the attempts of a command that made no run.
    pub(crate) fn end(
        self,
        ended: Result<Exit, Failure>,
        reachability: Vec<Reachability>,
    ) -> Result<Exit, Failure> {
        self.close_screen();
        let Some(stream) = self.stream else { return ended };
        let (exit, error) = match &ended {
            Ok(exit) => (*exit, None),
            Err(failure) => (failure.exit, Some(failure.message.clone())),
        };
        let last = LiveRecord::End(LiveEnd { exit_code: exit.code(), error, reachability });
        stream.end(last).and(ended)
    }
}
