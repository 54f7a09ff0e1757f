//! The raw part of a submission: the files of a result directory as a `.tar.zst` file. The same files give the same
//! bytes: sorted names, and no times or owners.

use pathbench_api::anonymise::{Anonymiser, MOST_NAMES};
use pathbench_api::bounds::RAW_BYTES;
use pathbench_api::consent::Consent;
use pathbench_record::file;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Files of a raw part before compression; lines of results compress to a tenth and less.
const MOST_BYTES: u64 = 128 << 20;
const DOCUMENT: &str = "run.json";

#[derive(Debug, Error)]
pub(crate) enum ArchiveError {
    #[error("its files have {bytes} bytes; at most {MOST_BYTES} are submitted")]
    Large { bytes: u64 },
    #[error("its files have {bytes} bytes compressed; at most {RAW_BYTES} are submitted")]
    LargeCompressed { bytes: usize },
    #[error("its files hold more than {MOST_NAMES} names of networks and hosts; they cannot be anonymised")]
    Names,
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {problem}; it cannot be anonymised", path.display())]
    Json { path: PathBuf, problem: String },
    #[error("cannot make the archive: {0}")]
    Write(io::Error),
}

/// The names of the files in a raw part, sorted. Of public results only JSON is included: it can be anonymised.
pub(crate) fn files(directory: &Path, consent: Consent) -> Result<Vec<PathBuf>, ArchiveError> {
    let read = |source| ArchiveError::Read { path: directory.to_owned(), source };
    let mut files = Vec::new();
    let mut bytes = 0;
    for entry in fs::read_dir(directory).map_err(read)? {
        let entry = entry.map_err(read)?;
        let metadata = entry.metadata().map_err(read)?;
        let ending = entry.path().extension().map(|ending| ending.to_string_lossy().into_owned());
        let is_json = matches!(ending.as_deref(), Some("json" | "jsonl"));
        // Captures and pages are large, or made again from the rest.
        let is_private = consent == Consent::Private && matches!(ending.as_deref(), Some("toml"));
        if metadata.is_file() && (is_json || is_private) {
            bytes += metadata.len();
            files.push(entry.path());
        }
    }
    if bytes > MOST_BYTES {
        return Err(ArchiveError::Large { bytes });
    }
    files.sort();
    Ok(files)
}

/// Reads all JSON documents and lines in `files`, without a last line that is cut.
pub(crate) fn documents(
    files: &[PathBuf],
    mut each: impl FnMut(&Path, Value) -> Option<Value>,
) -> Result<Vec<(PathBuf, Vec<u8>)>, ArchiveError> {
    let mut contents = Vec::new();
    for path in files {
        let text = file::read(path, MOST_BYTES)
            .map_err(|source| ArchiveError::Read { path: path.clone(), source })?;
        let wrong =
            |error: serde_json::Error| ArchiveError::Json { path: path.clone(), problem: error.to_string() };
        let mut content = Vec::new();
        let is_lines = path.extension().is_some_and(|ending| ending == "jsonl");
        let parts: Vec<&[u8]> =
            if is_lines { text.split(|byte| *byte == b'\n').collect() } else { vec![&text] };
        let last = parts.len() - 1;
        for (index, part) in parts.into_iter().enumerate().filter(|(_, part)| !part.trim_ascii().is_empty()) {
            let value = match serde_json::from_slice(part) {
                // The writer was killed: the line has no line feed.
                Err(_) if is_lines && index == last => continue,
                read => read.map_err(wrong)?,
            };
            if let Some(value) = each(path, value) {
                serde_json::to_writer(&mut content, &value).map_err(wrong)?;
                content.push(b'\n');
            }
        }
        contents.push((path.clone(), content));
    }
    Ok(contents)
}

/// The archive of `files`, in the anonymous form if `anonymiser` is given.
pub(crate) fn archive(files: &[PathBuf], anonymiser: Option<&Anonymiser>) -> Result<Vec<u8>, ArchiveError> {
    let contents = if let Some(anonymiser) = anonymiser {
        documents(files, |path, mut value| {
            if path.ends_with(DOCUMENT) {
                hide_origin(&mut value);
            }
            anonymiser.apply(&mut value);
            Some(value)
        })?
    } else {
        let read = |path: &PathBuf| {
            let content = file::read(path, MOST_BYTES)
                .map_err(|source| ArchiveError::Read { path: path.clone(), source })?;
            Ok((path.clone(), content))
        };
        files.iter().map(read).collect::<Result<_, _>>()?
    };
    let mut tar = tar::Builder::new(Vec::new());
    for (path, content) in &contents {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        let name = path.file_name().unwrap_or_default();
        tar.append_data(&mut header, name, content.as_slice()).map_err(ArchiveError::Write)?;
    }
    let tar = tar.into_inner().map_err(ArchiveError::Write)?;
    let compressed = compress_to_vec(tar.as_slice(), CompressionLevel::Fastest);
    if compressed.len() > RAW_BYTES {
        return Err(ArchiveError::LargeCompressed { bytes: compressed.len() });
    }
    Ok(compressed)
}

/// The file of a scenario is in a directory with a user's name.
fn hide_origin(document: &mut Value) {
    if let Some(Value::String(origin)) = document.pointer_mut("/scenario/origin")
        && !matches!(origin.as_str(), "builtin" | "command line")
    {
        "file".clone_into(origin);
    }
}
