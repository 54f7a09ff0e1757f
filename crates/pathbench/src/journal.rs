//! The journal of a command: its location, and its undo. The journal records each change of this
//! host before it is made. Each command has its own, so that its undo undoes its own changes only.

use pathbench_host::change::{Applier, ApplyError, UndoOutcome};
use pathbench_host::namespace::current_cookie;
use pathbench_program::exit::Failure;
use pathbench_program::output;
use rustix::fs::{Access, access};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// If others could write the journal, another user could set routes through the undo.
const OWN_ONLY: u32 = 0o700;
const OTHERS_MAY_WRITE: u32 = 0o022;

/// The journal of `command` in this network namespace: the user's file, or the first default directory that holds a
/// journal or can be created. Like routes, these directories do not survive a reboot.
pub(crate) fn create_file(command: &str, given: Option<&Path>) -> Result<PathBuf, Failure> {
    let found = locate(command, given, |all| all.iter().find(|one| create(one)).cloned())?;
    found.ok_or_else(|| {
        let tried: Vec<String> = directories().iter().map(|one| one.display().to_string()).collect();
        let tried = tried.join(", ");
        Failure::host_cannot(format!(
            "no directory for the journal, tried {tried}: name one with --journal FILE"
        ))
    })
}

/// The path of an existing or future journal, to read it; creates no directory.
pub(crate) fn find_file(command: &str, given: Option<&Path>) -> Result<PathBuf, Failure> {
    let found = locate(command, given, |all| all.first().cloned())?;
    Ok(found.unwrap_or_else(std::env::temp_dir))
}

fn locate(
    command: &str,
    given: Option<&Path>,
    otherwise: impl FnOnce(&[PathBuf]) -> Option<PathBuf>,
) -> Result<Option<PathBuf>, Failure> {
    if let Some(given) = given {
        return Ok(Some(given.to_owned()));
    }
    let name = name(command)?;
    let directories = directories();
    let standing = directories.iter().find(|one| is_own(one) && one.join(&name).exists()).cloned();
    Ok(standing.or_else(|| otherwise(&directories)).map(|directory| directory.join(name)))
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

fn directories() -> Vec<PathBuf> {
    let user = rustix::process::geteuid();
    let of_root = user.is_root().then(|| PathBuf::from("/run/pathbench"));
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|directory| !directory.is_empty());
    let of_user = runtime.map(|directory| PathBuf::from(directory).join("pathbench"));
    // For a user namespace without its own runtime directory.
    let last = std::env::temp_dir().join(format!("pathbench-{}", user.as_raw()));
    [of_root, of_user, Some(last)].into_iter().flatten().collect()
}

/// Creates a missing directory; returns whether it can hold a journal.
fn create(directory: &Path) -> bool {
    let _there_already = DirBuilder::new().mode(OWN_ONLY).create(directory);
    is_own(directory) && access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Whether it is a directory owned by this user that no other user can write to.
fn is_own(directory: &Path) -> bool {
    fs::symlink_metadata(directory).is_ok_and(|metadata| {
        metadata.is_dir()
            && metadata.uid() == rustix::process::geteuid().as_raw()
            && metadata.mode() & OTHERS_MAY_WRITE == 0
    })
}

/// The result of an undo.
#[derive(Debug)]
pub(crate) struct Undone {
    /// Commands that are equivalent to the restored changes, one per line.
    pub(crate) restored: String,
    pub(crate) ending: Result<(), Failure>,
}

/// Undoes all changes in the journal of `pathbench COMMAND`, and reports unrestored changes on stderr.
pub(crate) fn undo(applier: &mut Applier, journal: &Path, command: &str, force: bool) -> Undone {
    let report = match applier.undo(force) {
        Ok(report) => report,
        Err(error) => {
            let ending = Err(failure(&error, &format!("pathbench {command} --undo")));
            return Undone { restored: String::new(), ending };
        }
    };
    if report.steps.is_empty() {
        output::note(format_args!("nothing to undo: there is no journal {}", journal.display()));
    }
    let mut restored = String::new();
    for step in &report.steps {
        let commands = step.commands.join("; ");
        match &step.outcome {
            UndoOutcome::Restored => {
                restored.extend(step.commands.iter().map(|line| format!("{line}\n")));
            }
            UndoOutcome::Nothing => {}
            UndoOutcome::Gone => output::note(format_args!("gone with its interface: {commands}")),
            UndoOutcome::Superseded(how) => output::note(format_args!("left as it is: {how}")),
            UndoOutcome::Changed(how) if commands.is_empty() => {
                output::note(format_args!("not undone: {how}"));
            }
            UndoOutcome::Changed(how) => output::note(format_args!("not undone: {commands}: {how}")),
        }
    }
    let incomplete = || {
        Failure::failed(format!(
            "not everything was undone, because another program has changed it since; undo it nevertheless with \
             pathbench {command} --undo --force; until then the journal stays: {}",
            journal.display()
        ))
    };
    Undone { restored, ending: if report.is_complete() { Ok(()) } else { Err(incomplete()) } }
}

/// `printing` is the command that prints the equivalent commands.
pub(crate) fn failure(error: &ApplyError, printing: &str) -> Failure {
    if error.is_host_unable() {
        return Failure::host_cannot(format!(
            "{error}\nthis needs CAP_NET_ADMIN: run it as root (sudo), or let an administrator run the commands that \
             {printing} prints"
        ));
    }
    Failure::failed(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_journal_is_kept_where_no_other_user_can_write() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("pathbench");
        assert!(create(&directory), "a missing directory is made");
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, OWN_ONLY);
        assert!(create(&directory), "one that is there will do");
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!create(&directory), "others can write to it");
        let link = home.path().join("link");
        std::os::unix::fs::symlink(home.path(), &link).unwrap();
        assert!(!create(&link), "it leads elsewhere");
        assert!(!create(&home.path().join("no/where")));
    }

    #[test]
    fn a_named_journal_is_used_as_given() {
        assert_eq!(create_file("mtu", Some(Path::new("here.jsonl"))).unwrap(), Path::new("here.jsonl"));
    }
}
