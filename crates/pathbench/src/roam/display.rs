//! What goes on, on stderr: a view that is drawn anew on a terminal, a line now and then elsewhere.

use super::view;
use crate::output;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use pathbench_record::time::Timestamp;
use std::time::Duration;

/// Between two pictures.
const PICTURE: Duration = Duration::from_millis(200);
/// Between two lines where there is no terminal.
const LINE: Duration = Duration::from_secs(5);

/// The live display.
pub(super) struct Display {
    view: MultiProgress,
    bars: Vec<ProgressBar>,
    quiet: bool,
    terminal: bool,
    next: Timestamp,
}

impl Display {
    /// Nothing is shown yet.
    pub(super) fn new(quiet: bool) -> Self {
        let terminal = output::stderr_is_terminal() && !quiet;
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let view = MultiProgress::with_draw_target(target);
        Self { view, bars: Vec::new(), quiet, terminal, next: Timestamp::default() }
    }

    /// A line that is told at once, above the view.
    pub(super) fn line(&self, text: &str) {
        if !self.quiet {
            self.warn(text);
        }
    }

    /// A line that even a quiet user is to see.
    pub(super) fn warn(&self, text: &str) {
        self.view.suspend(|| output::note(text));
    }

    /// Shows the figures, when it is time to; `lines` makes a picture, `line` one line of it.
    pub(super) fn show(
        &mut self,
        now: Timestamp,
        walked: Duration,
        lines: impl FnOnce() -> Vec<String>,
        line: impl FnOnce() -> String,
    ) {
        if self.quiet || now < self.next {
            return;
        }
        if !self.terminal {
            self.next = now + LINE;
            return self.line(&line());
        }
        self.next = now + PICTURE;
        let mut picture = vec![format!("{}   Ctrl-C ends the walk", view::clock(walked))];
        picture.extend(lines());
        while self.bars.len() < picture.len() {
            let bar = self.view.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                bar.set_style(style);
            }
            self.bars.push(bar);
        }
        for (bar, line) in self.bars.iter().zip(picture) {
            bar.set_message(line);
        }
    }

    /// Takes the view away.
    pub(super) fn end(&mut self) {
        for bar in self.bars.drain(..) {
            bar.finish_and_clear();
        }
    }
}
