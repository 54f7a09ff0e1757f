//! Standard input, output and error. No other module opens them.
#![expect(clippy::disallowed_methods, reason = "the one place in which standard output and error are opened")]

use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::AsFd as _;

pub fn standard_error() -> impl Write + Send {
    io::stderr()
}

/// Writes to standard output; an error of a closed one is ignored, because the collector goes on.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A listening socket that a parent passed.
pub fn standard_input() -> io::Result<TcpListener> {
    let listener = TcpListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.local_addr()?;
    Ok(listener)
}
