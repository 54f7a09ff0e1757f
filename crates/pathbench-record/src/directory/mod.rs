//! The result directory: `run.json` and the JSON Lines files (docs/results.md).

mod index;
mod lines;
mod reader;
mod trace;
mod unfinished;
mod writer;
mod written;

pub use index::{LineIndex, RunLines};
pub use lines::{Line, Records};
pub use reader::{ReadError, ResultDirectory, holds_result};
pub use trace::{SEQUENCE_FILE, TRACE_FILE, read_sequences, read_trace, write_sequences, write_trace};
pub use unfinished::{CopyError, ResumeError};
pub use writer::{
    CreateError, ResultWriter, Resumed, WriteError, create_empty, create_new_beside, default_directory_name,
};
pub(crate) use written::Fields;
