//! `lab import`.

use crate::cli::ImportArgs;
use crate::exit::{Exit, Failure};
use crate::{new_file, output};
use pathbench_minitopo::{MinitopoFile, import_minitopo};
use std::fs;
use std::path::Path;

const READABLE: u32 = 0o666;

pub(crate) fn run(args: &ImportArgs) -> Result<Exit, Failure> {
    let (topology, content) = read(&args.topology)?;
    let experiment = args.experiment.as_deref().map(read).transpose()?;
    let file = MinitopoFile { name: &topology, content: &content };
    let traffic = experiment.as_ref().map(|(name, content)| MinitopoFile { name, content });
    let text = import_minitopo(file, traffic).map_err(Failure::bad_input)?;
    match &args.out {
        None => output::print(&text)?,
        Some(out) => new_file::create(out, READABLE, &text)?,
    }
    Ok(Exit::Done)
}

fn read(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let name = path.display().to_string();
    match fs::read(path) {
        Ok(content) => Ok((name, content)),
        Err(error) => {
            Err(Failure::bad_input(format!("cannot read {name}: {error}; give one of minitopo's files")))
        }
    }
}
