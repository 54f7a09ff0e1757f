//! The location of the journal, which records each change of this host before it is made. Each command has its own, so
//! that its undo undoes its own changes only.

use crate::exit::Failure;
use pathbench_host::namespace::current_cookie;
use rustix::fs::{Access, access};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// If others could write the journal, another user could set routes through the undo.
const OWN_ONLY: u32 = 0o700;
const OTHERS_MAY_WRITE: u32 = 0o022;

/// The journal of `command` in this network namespace: the user's file, or the first default directory that holds a
/// journal or can be created. Like routes, these directories do not survive a reboot.
pub(crate) fn place(command: &str, given: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let name = name(command)?;
    let places = places();
    let standing = places.iter().find(|place| is_own(place) && place.join(&name).exists());
    let place = standing.or_else(|| places.iter().find(|place| make(place)));
    place.map(|place| place.join(&name)).ok_or_else(|| {
        let tried: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        Failure::host_cannot(format!(
            "no directory for the journal, tried {}: name one with --journal FILE",
            tried.join(", ")
        ))
    })
}

/// The file name of a command's journal. A later namespace may have the same inode, but another cookie.
fn name(command: &str) -> Result<String, Failure> {
    if let Ok(cookie) = current_cookie() {
        return Ok(format!("{command}-journal-{cookie}.jsonl"));
    }
    let namespace = fs::metadata("/proc/thread-self/ns/net").map_err(|error| {
        Failure::host_cannot(format!("cannot identify this network namespace: {error}; is /proc mounted?"))
    })?;
    Ok(format!("{command}-journal-inode-{}.jsonl", namespace.ino()))
}

fn places() -> Vec<PathBuf> {
    let user = rustix::process::geteuid();
    let of_root = user.is_root().then(|| PathBuf::from("/run/pathbench"));
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|place| !place.is_empty());
    let of_user = runtime.map(|place| PathBuf::from(place).join("pathbench"));
    // For a user namespace without its own runtime directory.
    let last = std::env::temp_dir().join(format!("pathbench-{}", user.as_raw()));
    [of_root, of_user, Some(last)].into_iter().flatten().collect()
}

/// Creates a missing directory; returns whether it can hold a journal.
fn make(place: &Path) -> bool {
    let _there_already = DirBuilder::new().mode(OWN_ONLY).create(place);
    is_own(place) && access(place, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Whether it is a directory owned by this user that no other user can write to.
fn is_own(place: &Path) -> bool {
    fs::symlink_metadata(place).is_ok_and(|metadata| {
        metadata.is_dir()
            && metadata.uid() == rustix::process::geteuid().as_raw()
            && metadata.mode() & OTHERS_MAY_WRITE == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_journal_is_kept_where_no_other_user_can_write() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("pathbench");
        assert!(make(&place), "a missing directory is made");
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o777, OWN_ONLY);
        assert!(make(&place), "one that is there will do");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!make(&place), "others can write to it");
        let link = home.path().join("link");
        std::os::unix::fs::symlink(home.path(), &link).unwrap();
        assert!(!make(&link), "it leads elsewhere");
        assert!(!make(&home.path().join("no/where")));
    }

    #[test]
    fn a_named_journal_is_used_as_given() {
        assert_eq!(place("mtu", Some(Path::new("here.jsonl"))).unwrap(), Path::new("here.jsonl"));
    }
}
