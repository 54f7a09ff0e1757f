//! What the terminal is like: colours, width.

use pathbench_report::terminal::Style;
use std::io::{IsTerminal as _, stdout};

/// Width where there is no terminal to ask.
const DEFAULT_WIDTH: usize = 100;

/// How to print on standard output.
pub(crate) fn style() -> Style {
    Style {
        colour: stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        width: width(),
    }
}

fn width() -> usize {
    rustix::termios::tcgetwinsize(stdout())
        .map_or(DEFAULT_WIDTH, |size| if size.ws_col == 0 { DEFAULT_WIDTH } else { usize::from(size.ws_col) })
}
