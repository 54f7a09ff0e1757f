//! The collector's directory.

use super::options::StorageArgs;
use pathbench_program::exit::Failure;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// Missing parts are created.
    Create,
    Existing,
}

/// A file or directory in the collector's directory, which is created for its owner alone.
pub(super) fn within_directory(
    storage: &StorageArgs,
    name: &str,
    opening: Opening,
) -> Result<PathBuf, Failure> {
    let directory = match &storage.dir {
        Some(path) => path.clone(),
        None => default_directory()?,
    };
    let path = directory.join(name);
    if opening == Opening::Create {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(|error| {
            let directory = directory.display();
            Failure::failed(format!("cannot create {directory}: {error}; name another one with --dir"))
        })?;
    } else if !path.exists() {
        return Err(Failure::bad_input(format!(
            "there is no collector in {}, which lacks {name}: name its directory with --dir",
            directory.display()
        )));
    }
    Ok(path)
}

fn default_directory() -> Result<PathBuf, Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/pathbench-collector".into());
    }
    let data = std::env::var_os("XDG_DATA_HOME").filter(|path| Path::new(path).is_absolute());
    let data = data.map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(".local/share")));
    let data = data.ok_or_else(|| Failure::bad_input("no home directory: name a directory with --dir"))?;
    Ok(data.join("pathbench/collector"))
}
