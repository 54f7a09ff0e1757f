//! The result directory: `run.json` and the JSON Lines files (docs/results.md).

mod reader;
mod writer;

pub use reader::{Line, ReadError, Records, ResultDirectory, holds_result};
pub use writer::{
    CreateError, ResultWriter, WriteError, create_empty, create_new_beside, default_directory_name,
};
