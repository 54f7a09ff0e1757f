//! Traces of real links: parses a file into schedules of rate, delay and loss, or reports an error with its line.
//!
//! | format | a line | has |
//! |---|---|---|
//! | mahimahi | `ms` | rate ([`OpportunitySchedule`](crate::OpportunitySchedule)) |
//! | cellreplay | `time_ms base_delay_ms opportunity_ms…` | rate and delay ([`TrainSchedule`](crate::TrainSchedule)) |
//! | bytes-per-second | `second,bytes_per_second` | rate |
//! | pensieve | `second Mbit/s` | rate |
//! | csv | columns by the names and units of a header | rate, delay, loss |
//! | alphartc | JSON | rate, delay, loss |
//! | leoreplayer | a delay in ms for each 10 ms | delay |
//! | irtt | IRTT's JSON, or LENS's table of it | delay, loss |
//! | ping | output of ping | delay, loss |
//!
//! Without a header, a table of two columns is `second,loss` or `second,delay_ms` where a loss or delay is expected. A rate
//! without a unit is an error: nothing distinguishes Mbit/s from bytes per second.
//!
//! Lines end in LF, CR LF or CR. The parser ignores blanks around a line, a UTF-8 byte order mark, and empty lines at
//! the end of the file. Tables may have comments (`#`) and empty lines. All traces repeat after their end.
//!
//! A loss trace is a function of time only: a pattern per packet (a 0 or 1 for each) would drop different packets with
//! each transport.

mod csv;
mod detect;
mod error;
mod format;
mod header;
mod import;
mod json;
mod leoreplayer;
mod limits;
mod lines;
mod opportunities;
mod options;
mod ping;
mod read;
mod samples;
mod steps;
mod summary;
mod table;
mod unit;
mod wall_clock;

pub use detect::detect_rate;
pub use error::TraceError;
pub use format::TraceFormat;
pub use import::{TraceContent, delay_table, import, loss_table, rate_table};
pub use limits::{MAX_BYTES, MAX_SECONDS, MAX_VALUES};
pub use opportunities::{cellreplay, mahimahi};
pub use options::TraceOptions;
pub use read::{delay, loss, rate};
pub use summary::TraceSummary;
pub use table::bytes_per_second;
pub use unit::{RateUnit, TimeUnit};
