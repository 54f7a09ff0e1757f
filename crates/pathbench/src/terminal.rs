//! What the terminal is like: colours, width.

use crate::output;
use pathbench_report::terminal::Style;

/// Width where there is no terminal to ask.
const DEFAULT_WIDTH: usize = 100;

/// How to print on standard output.
pub(crate) fn style() -> Style {
    Style {
        colour: output::stdout_is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        width: output::columns().unwrap_or(DEFAULT_WIDTH),
    }
}
