//! `lab import`.

use crate::cli::ImportArgs;
use crate::exit::{Exit, Failure};
use pathbench_lab::scenario::{MinitopoFile, import_minitopo};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

pub(crate) fn run(args: &ImportArgs) -> Result<Exit, Failure> {
    let (topology, content) = read(&args.topology)?;
    let experiment = args.experiment.as_deref().map(read).transpose()?;
    let file = MinitopoFile { name: &topology, content: &content };
    let traffic = experiment.as_ref().map(|(name, content)| MinitopoFile { name, content });
    let text = import_minitopo(file, traffic).map_err(Failure::bad_input)?;
    match &args.out {
        None => print!("{text}"),
        Some(out) => write(out, &text)?,
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

/// A file that is there already may be a scenario that somebody has worked on.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let written = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        let problem = format!("cannot write {}: {error}", path.display());
        Failure::bad_input(format!("{problem}; give the name of a file that does not exist yet to --out"))
    })
}
