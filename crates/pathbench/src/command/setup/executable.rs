//! The executable in the unit of `--persist`, which root runs at every boot.

use pathbench_program::exit::Failure;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const OTHERS_MAY_WRITE: u32 = 0o022;

/// This program's executable. A unit of this machine gets none that another user than root can replace.
pub(super) fn find(root: &Path) -> Result<PathBuf, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find the path of this program: {error}")))?;
    if root.canonicalize().is_ok_and(|root| root == Path::new("/")) {
        check(&program)?;
    }
    Ok(program)
}

/// Checks the executable and all directories above it.
fn check(program: &Path) -> Result<(), Failure> {
    match program.ancestors().find_map(|path| problem(path).map(|problem| (path, problem))) {
        None => Ok(()),
        Some((path, problem)) => Err(Failure::host_cannot(format!(
            "no file was written: root would run {} at every boot, but {} {problem}\ninstall the program first: sudo \
             install -D -o root -g root -m 755 {0} /usr/local/bin/pathbench; then run /usr/local/bin/pathbench",
            program.display(),
            path.display()
        ))),
    }
}

/// The reason why another user than root can change the file or directory.
fn problem(path: &Path) -> Option<String> {
    match fs::symlink_metadata(path) {
        Err(error) => Some(format!("cannot be examined: {error}")),
        Ok(found) if found.uid() != 0 => Some(format!("belongs to user {}, not to root", found.uid())),
        Ok(found) if found.is_symlink() => Some("is a symbolic link".to_owned()),
        Ok(found) if found.mode() & OTHERS_MAY_WRITE != 0 => {
            Some(format!("can be written by other users (permissions {:o})", found.mode() & 0o7777))
        }
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_executable_that_root_alone_can_replace_gets_into_a_unit() {
        // A file of this user below a directory that everybody can write to.
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("pathbench");
        fs::write(&program, "").unwrap();
        let failure = check(&program).unwrap_err();
        assert_eq!(failure.exit, pathbench_program::exit::Exit::HostCannot);
        assert!(failure.message.contains("install -D -o root"), "{}", failure.message);
        assert!(check(Path::new("/no/such/program")).unwrap_err().message.contains("cannot be examined"));
    }

    #[test]
    fn each_directory_above_counts() {
        assert_eq!(problem(Path::new("/proc")), None, "it belongs to root, who alone can write to it");
        assert!(problem(Path::new("/dev/null")).is_some_and(|problem| problem.contains("permissions")));
        assert!(problem(Path::new("/proc/self")).is_some());
    }
}
