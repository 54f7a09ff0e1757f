//! The result directory: `run.json` and the JSON Lines files (docs/results.md).

mod document;
mod error;
mod index;
mod layout;
mod line;
mod lines;
mod reader;
mod records;
mod resume;
mod trace;
mod writer;
mod written;

pub use error::{CopyError, ReadError, WriteError};
pub use index::{LineIndex, RunLines};
pub use layout::{SEQUENCE_FILE, TRACE_FILE, holds_result};
pub use line::Line;
pub use lines::Records;
pub use reader::ResultDirectory;
pub use resume::ResumeError;
pub use trace::{read_sequences, read_trace, write_sequences, write_trace};
pub use writer::{
    CreateError, ResultWriter, Resumed, create_empty, create_new_beside, default_directory_name,
};
pub(crate) use written::Fields;
