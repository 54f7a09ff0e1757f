//! Writes the golden result of the current schema into an empty directory: how `tests/golden/v1` was made, later
//! `tests/golden/v1-messages`, `tests/golden/v1-emulated` and `tests/golden/v1-mtu` with all that was added to it, and
//! how that of a next schema version is to be.

#[path = "../tests/support/document.rs"]
mod document;
#[path = "../tests/support/lines.rs"]
mod lines;

use pathbench_record::directory::ResultWriter;
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let dir: PathBuf = std::env::args_os().nth(1).ok_or("usage: write_golden DIR")?.into();
    let mut writer = ResultWriter::create(&dir)?;
    writer.append(&lines::samples())?;
    writer.append(&lines::events())?;
    writer.append(&lines::deliveries())?;
    writer.append(&lines::messages())?;
    writer.append(&lines::link_samples())?;
    writer.append(&lines::probe_lines())?;
    writer.finish(&document::document())?;
    Ok(())
}
