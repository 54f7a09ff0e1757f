//! The result directory: `run.json` and the JSON Lines files (docs/results.md).
//!
//! A result is written run by run and read as a whole:
//!
//! ```rust
//! use pathbench_record::delivery::DeliveryLine;
//! use pathbench_record::direction::Direction;
//! use pathbench_record::directory::{ResultDirectory, ResultWriter};
//! use pathbench_record::document::{ResultDocument, RunRecord};
//!
//! let parent = tempfile::tempdir()?;
//! let dir = parent.path().join("failover");
//! let run = RunRecord { id: "01-mptcp-r1".to_owned(), ..RunRecord::default() };
//! let line = DeliveryLine { run: run.id.clone(), direction: Direction::Upload, t_ms: 20.0, bytes: 14_480 };
//!
//! let mut writer = ResultWriter::create(&dir)?;
//! writer.append(&[line.clone()])?;
//! writer.finish(&ResultDocument { runs: vec![run], ..ResultDocument::default() })?;
//!
//! let result = ResultDirectory::open(&dir)?;
//! assert_eq!(result.document.runs[0].id, "01-mptcp-r1");
//! assert_eq!(result.lines::<DeliveryLine>()?.items, [line]);
//! assert_eq!(result.warning, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
pub use records::for_each_line;
pub use resume::ResumeError;
pub use trace::{read_sequences, read_trace, write_sequences, write_trace};
pub use writer::{
    CreateError, ResultWriter, Resumed, create_empty, create_new_beside, default_directory_name,
};
pub(crate) use written::{Field, Fields, text_fields};
