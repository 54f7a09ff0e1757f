//! The files of `--persist`: new files only, and removed by `--undo` unless someone has changed them.

use pathbench_check::setup::persistence::{
    DROP_IN, MARKER, NETWORK_MANAGER, NETWORKD, PersistentFile, UNIT, UNIT_LINK, UNIT_TARGET, is_unchanged,
};
use pathbench_program::exit::Failure;
use pathbench_program::output;
use pathbench_record::file::{self, Replacement};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Writes `files` below `root` and enables the unit; returns the paths. An existing file is replaced only if an earlier
/// call wrote it and no one has changed it.
pub(super) fn write(root: &Path, files: &[PersistentFile]) -> Result<Vec<PathBuf>, Failure> {
    let mut foreign: Vec<String> = Vec::new();
    for file in files {
        let path = root.join(&file.path);
        match file::read_text(&path, file::SMALL_FILE_BYTES) {
            Ok(text) if is_unchanged(&text) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) => {
                foreign.push(format!("{} exists, and is not from pathbench or was changed", path.display()));
            }
            Err(error) => foreign.push(format!("cannot read {}: {error}", path.display())),
        }
    }
    if !foreign.is_empty() {
        return Err(Failure::failed(format!("no file was written: {}", foreign.join("; "))));
    }
    let mut written = Vec::new();
    for file in files {
        let path = root.join(&file.path);
        replace(&path, &file.text).map_err(|error| not_written(&path, &error))?;
        output::note(format_args!("wrote {}", path.display()));
        written.push(path);
    }
    let link = root.join(UNIT_LINK);
    if fs::symlink_metadata(&link).is_err() {
        let made = make_directory_of(&link).and_then(|()| symlink(UNIT_TARGET, &link));
        made.map_err(|error| not_written(&link, &error))?;
        written.push(link);
    }
    output::note(
        "to load the files now: systemctl daemon-reload; networkctl reload; nmcli general reload, and nmcli connection up for \
         each connection (a reapply keeps the old defaults)",
    );
    Ok(written)
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot write {}: {error}", path.display());
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Failure::host_cannot(format!("{message}; run it as root (sudo)"));
    }
    Failure::failed(message)
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    make_directory_of(path)?;
    let replacement = Replacement::with_mode(path, 0o644)?;
    replacement.file().write_all(text.as_bytes())?;
    replacement.commit_durably()
}

fn make_directory_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Removes the files that [`write()`] wrote, and returns a command line for each. Keeps files that someone has changed,
/// except with `force`.
pub(super) fn remove(root: &Path, force: bool) -> Result<String, Failure> {
    let mut removed = String::new();
    let mut kept = Vec::new();
    for path in candidates(root) {
        let Ok(text) = file::read_text(&path, file::SMALL_FILE_BYTES) else { continue };
        if !text.starts_with(MARKER) {
            continue;
        }
        if is_unchanged(&text) || force {
            fs::remove_file(&path)
                .map_err(|error| Failure::failed(format!("cannot remove {}: {error}", path.display())))?;
            removed.extend(["rm ", &path.display().to_string(), "\n"]);
            remove_if_empty(&path);
        } else {
            kept.push(path.display().to_string());
        }
    }
    let link = root.join(UNIT_LINK);
    let is_ours = fs::read_link(&link).is_ok_and(|target| target == Path::new(UNIT_TARGET));
    if is_ours && !root.join(UNIT).exists() && fs::remove_file(&link).is_ok() {
        removed.extend(["rm ", &link.display().to_string(), "\n"]);
        remove_if_empty(&link);
    }
    if kept.is_empty() {
        return Ok(removed);
    }
    output::print(&removed)?;
    Err(Failure::failed(format!(
        "changed since pathbench wrote it, and kept: {}; remove it nevertheless with pathbench setup --undo --force",
        kept.join(", ")
    )))
}

/// Removes the directory of a removed file if nothing else is in it; only drop-in directories are ours to remove.
fn remove_if_empty(path: &Path) {
    let directory = path.parent().filter(|directory| directory.extension().is_some());
    if let Some(directory) = directory {
        let _not_empty = fs::remove_dir(directory);
    }
}

fn candidates(root: &Path) -> Vec<PathBuf> {
    let mut candidates = vec![root.join(UNIT), root.join(NETWORK_MANAGER)];
    let networks = fs::read_dir(root.join(NETWORKD)).into_iter().flatten().flatten();
    let drop_ins =
        networks.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "d"));
    candidates.extend(drop_ins.map(|directory| directory.join(DROP_IN)));
    candidates
}
