//! The captures and the key log that the command reads.

use crate::live;
use pathbench_program::exit::Failure;
use pathbench_program::{output, signals};
use pathbench_record::file;
use pathbench_trace::analysis::{self, CaptureSource};
use pathbench_trace::capture::OpenError;
use pathbench_trace::quic::Keylog;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The file name of standard input.
const STANDARD_INPUT: &str = "-";
/// A key log has about 200 bytes per secret and five secrets per connection.
const MOST_KEYLOG_BYTES: u64 = 64 << 20;

pub(super) type CaptureInput = Box<dyn Read>;

/// The captures that can be read.
#[derive(Default)]
pub(super) struct Inputs {
    pub(super) sources: Vec<CaptureSource<CaptureInput>>,
    /// One entry per source.
    pub(super) files: Vec<PathBuf>,
    /// The name of an input that cannot be read twice: standard input, or a pipe.
    pub(super) unrepeatable: Option<String>,
}

/// Opens the captures. Reports every file that cannot be read on standard error.
pub(super) fn open_all(files: &[PathBuf]) -> Result<Inputs, Failure> {
    if files.iter().filter(|file| is_standard_input(file)).count() > 1 {
        return Err(Failure::bad_input("standard input can be read once only: give `-` once"));
    }
    let mut inputs = Inputs::default();
    for file in files {
        match open(file) {
            Ok(source) => {
                if is_standard_input(file) || !file.is_file() {
                    inputs.unrepeatable.get_or_insert_with(|| source.name.clone());
                }
                inputs.sources.push(source);
                inputs.files.push(file.clone());
            }
            Err(failure) => output::report_failure("pathbench", &failure),
        }
    }
    Ok(inputs)
}

fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == STANDARD_INPUT
}

pub(super) fn open(file: &Path) -> Result<CaptureSource<CaptureInput>, Failure> {
    let is_standard_input = is_standard_input(file);
    let name =
        if is_standard_input { "standard input".to_owned() } else { file.to_string_lossy().into_owned() };
    let input: CaptureInput = if is_standard_input {
        let unread = |error| Failure::bad_input(format!("cannot read standard input: {error}"));
        Box::new(StandardInput::new().map_err(unread)?)
    } else {
        Box::new(regular(file)?)
    };
    analysis::open(name.clone(), input).map_err(|error| {
        let remedy = match &error {
            OpenError::Io { .. } | OpenError::Version { .. } => "",
            _ => "; write captures with `tcpdump -w FILE`, dumpcap or Wireshark",
        };
        Failure::bad_input(format!("{name}: {error}{remedy}"))
    })
}

fn regular(file: &Path) -> Result<File, Failure> {
    let failed = |error: io::Error| {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => "; is the name right?",
            io::ErrorKind::PermissionDenied => {
                "; change its permissions, or pass it by standard input: `sudo cat FILE | pathbench trace -`"
            }
            _ => "",
        };
        Failure::bad_input(format!("cannot open {}: {error}{remedy}", file.display()))
    };
    if file.is_dir() {
        let problem = "is a directory; give the capture files in it, or a result to `pathbench report`";
        return Err(Failure::bad_input(format!("{} {problem}", file.display())));
    }
    file::open_stream(file).map_err(failed)
}

/// The secrets of an SSLKEYLOGFILE.
pub(super) fn keylog(file: &Path) -> Result<Keylog, Failure> {
    let mut text = Vec::new();
    regular(file)?
        .take(MOST_KEYLOG_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(|error| Failure::bad_input(format!("cannot read {}: {error}", file.display())))?;
    if text.len() as u64 > MOST_KEYLOG_BYTES {
        let limit = MOST_KEYLOG_BYTES >> 20;
        return Err(Failure::bad_input(format!(
            "{}: a key log of more than {limit} MiB; give the lines of the captured connections only",
            file.display()
        )));
    }
    let keylog = Keylog::parse(&text);
    if keylog.is_empty() {
        output::note(format_args!(
            "pathbench: warning: {}: no TLS 1.3 secret in the file; programs write them if SSLKEYLOGFILE names it",
            file.display()
        ));
    }
    Ok(keylog)
}

/// Standard input up to its end, or after a stop signal up to a pause.
///
/// Ctrl-C ends `tcpdump -w - | pathbench trace -` on both sides of the pipe. The packets that tcpdump writes at its end
/// are read, and the result is printed.
struct StandardInput {
    input: File,
    stop: Arc<AtomicBool>,
}

/// Longest time until a stop signal is seen.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

impl StandardInput {
    fn new() -> io::Result<Self> {
        // Without the buffer of `Stdin`, whose content poll(2) does not report.
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self { input: input.into(), stop: signals::stop_flag(live::restore_terminal) })
    }
}

impl Read for StandardInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let stopped = self.stop.load(Ordering::Relaxed);
            let mut polled = [PollFd::new(&self.input, PollFlags::IN)];
            match poll(&mut polled, Some(&POLL)) {
                Ok(0) if stopped => return Ok(0),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return self.input.read(buffer),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
