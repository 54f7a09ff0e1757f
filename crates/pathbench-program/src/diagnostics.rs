//! Diagnostics: the events and spans of `tracing`, of noq-proto as well. They are off by default; `-v` writes those of
//! level info to standard error, `-vv` those of level debug, and [`FILTER`] those that it names. [`FILE`] takes them
//! instead of standard error.

use crate::exit::Failure;
use crate::output;
use pathbench_record::file;
use pathbench_record::time::{SharedClock, rfc3339_from_unix};
use std::fmt;
use std::sync::OnceLock;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry;

/// The environment variable with the levels by module: `debug,noq_proto=trace`.
pub const FILTER: &str = "PATHBENCH_LOG";

/// The environment variable that names a file, to which the diagnostics are appended.
pub const FILE: &str = "PATHBENCH_LOG_FILE";

/// The filter in use; absent while diagnostics are off.
static IN_USE: OnceLock<String> = OnceLock::new();

/// Starts the diagnostics that `-v` and the environment ask for, once in a process. `verbosity` is the number of `-v`.
pub fn start(verbosity: u8, clock: &SharedClock) -> Result<(), Failure> {
    let given = std::env::var(FILTER).ok().filter(|text| !text.is_empty());
    let filter = match (given, verbosity) {
        (Some(text), _) => text,
        (None, 0) => return Ok(()),
        (None, 1) => "info".to_owned(),
        (None, _) => "debug".to_owned(),
    };
    let targets: Targets = filter.parse().map_err(|error| {
        Failure::bad_input(format!("{FILTER}: {error}; write levels by module, as debug,noq_proto=trace"))
    })?;
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_timer(Dates(clock.clone()));
    let layer = match std::env::var_os(FILE) {
        Some(file) => {
            let opened = file::append_named(&file, 0o600);
            let opened =
                opened.map_err(|error| Failure::bad_input(format!("{FILE}: {}: {error}", file.display())))?;
            layer.with_writer(opened).boxed()
        }
        None => layer.with_writer(output::stderr).boxed(),
    };
    let subscriber = registry().with(layer.with_filter(targets));
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        let _first = IN_USE.set(filter);
    }
    Ok(())
}

/// The variable for processes of this program that this process starts, which have its diagnostics, too.
pub fn environment() -> Option<(&'static str, &'static str)> {
    IN_USE.get().map(|filter| (FILTER, filter.as_str()))
}

/// Whether the diagnostics are written to standard error, where nothing may be drawn then.
pub fn take_standard_error() -> bool {
    IN_USE.get().is_some() && std::env::var_os(FILE).is_none()
}

/// Dates in UTC, to the millisecond.
struct Dates(SharedClock);

impl FormatTime for Dates {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let now = self.0.since_epoch();
        let date = rfc3339_from_unix(now.as_secs().cast_signed());
        write!(writer, "{}.{:03}Z", date.trim_end_matches('Z'), now.subsec_millis())
    }
}
