//! Standard output and standard error. No other module opens them.
#![expect(clippy::disallowed_methods, reason = "the one place in which standard output and error are opened")]

use std::io::{self, Write};

pub fn standard_error() -> impl Write + Send {
    io::stderr()
}

/// Writes to standard output; an error of a closed one is ignored, because the collector goes on.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
