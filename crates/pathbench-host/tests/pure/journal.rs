//! The journal file of remedies.

use pathbench_host::change::journal::{Journal, JournalEntry, JournalLine, ParsedJournal};
use pathbench_host::change::{JournalError, NamespaceIdentity, Operation};
use pathbench_host::mptcp::{EndpointFlags, MptcpEndpoint};
use pathbench_host::path_mtu::FibEntry;
use proptest::prelude::*;
use std::path::Path;

fn here() -> NamespaceIdentity {
    NamespaceIdentity { boot_id: "b1".to_owned(), inode: 4_026_531_840, cookie: Some(1) }
}

/// A route to 10.9.9.9 in table 234.
fn route() -> FibEntry {
    let bytes = [2, 32, 0, 0, 234, 4, 0, 1, 0, 0, 0, 0, 8, 0, 1, 0, 10, 9, 9, 9];
    FibEntry::parse(&bytes).unwrap()
}

fn operation(mtu_bytes: u32) -> Operation {
    Operation::AddRoute { route: route().with_mtu(Some(mtu_bytes)) }
}

/// A journal of three steps: the first undone, the second made and kept, the third only begun.
fn three_steps(path: &Path) -> Vec<JournalEntry> {
    let mut journal = Journal::open_or_create(path, &here()).unwrap();
    for mtu in [1400, 1500, 1600] {
        journal.begin(&operation(mtu), &[format!("undo {mtu}")]).unwrap();
    }
    journal.note(JournalLine::Done { step: 0, left: None }).unwrap();
    journal.note(JournalLine::Done { step: 1, left: Some(route()) }).unwrap();
    journal.note(JournalLine::Undoing { step: 1 }).unwrap();
    journal.note(JournalLine::Kept { step: 1 }).unwrap();
    journal.note(JournalLine::Undoing { step: 0 }).unwrap();
    journal.note(JournalLine::Undone { step: 0 }).unwrap();
    journal.entries.clone()
}

/// Regression: an undo added an endpoint again that an administrator had removed after a complete refresh.
#[test]
fn a_complete_refresh_is_settled() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let flags = EndpointFlags { subflow: true, ..EndpointFlags::default() };
    let endpoint =
        MptcpEndpoint { address: [10, 0, 1, 2].into(), port: None, id: Some(5), interface: Some(3), flags };
    let refresh = Operation::RefreshEndpoint { endpoint, first_subflow_too: true, wait_ms: 100 };
    let close = Operation::CloseFirstSubflow { address: endpoint.address, wait_ms: 100 };
    let mut journal = Journal::open_or_create(&path, &here()).unwrap();
    for operation in [&refresh, &close, &Operation::AddEndpoint { endpoint }] {
        let step = journal.begin(operation, &[]).unwrap();
        assert!(!journal.entries[step].is_settled() && journal.entries[step].is_interrupted());
        journal.note(JournalLine::Done { step, left: None }).unwrap();
        let leaves_nothing = !matches!(operation, Operation::AddEndpoint { .. });
        assert_eq!(journal.entries[step].is_settled(), leaves_nothing, "{operation:?}");
        assert_eq!(journal.is_settled(), leaves_nothing);
    }
    journal.note(JournalLine::Undoing { step: 2 }).unwrap();
    assert!(journal.entries[2].is_interrupted() && !journal.is_settled());
    drop(journal);
    let mut journal = Journal::open(&path, &here()).unwrap().unwrap();
    assert!(journal.entries[2].is_interrupted(), "it is not known how far the undo came");
    journal.note(JournalLine::Kept { step: 2 }).unwrap();
    assert!(!journal.entries[2].is_interrupted() && !journal.is_settled());
    journal.note(JournalLine::Undone { step: 2 }).unwrap();
    assert!(journal.is_settled());
}

#[test]
fn entries_are_read_as_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    assert!(Journal::open(&path, &here()).unwrap().is_none());
    let written = three_steps(&path);
    let journal = Journal::open(&path, &here()).unwrap().unwrap();
    assert_eq!(journal.entries, written);
    assert!(!journal.is_settled());
    journal.remove().unwrap();
    assert!(Journal::open(&path, &here()).unwrap().is_none());
}

/// Any prefix of the file on disk parses as a prefix of the entries, and the journal can be continued.
#[test]
fn a_truncated_file_is_read_up_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let written = three_steps(&path);
    let text = std::fs::read(&path).unwrap();
    for length in 0..text.len() {
        std::fs::write(&path, &text[..length]).unwrap();
        let mut journal = Journal::open_or_create(&path, &here()).unwrap();
        let begun = text[..length]
            .split_inclusive(|byte| *byte == b'\n')
            .filter(|line| line.ends_with(b"\n") && line.starts_with(br#"{"line":"begin""#));
        let begun = begun.count();
        assert_eq!(journal.entries.len(), begun, "{length} bytes");
        for (read, written) in journal.entries.iter().zip(&written) {
            assert_eq!(read.operation, written.operation, "{length} bytes");
            assert!(written.undone || !read.undone, "{length} bytes");
        }
        assert_eq!(journal.begin(&operation(1700), &[]).unwrap(), begun);
        drop(journal);
        let again = Journal::open(&path, &here()).unwrap().unwrap();
        assert_eq!(again.entries.len(), begun + 1, "{length} bytes");
    }
}

#[test]
fn a_second_process_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let first = Journal::open_or_create(&path, &here()).unwrap();
    let second = Journal::open(&path, &here());
    assert!(matches!(second, Err(JournalError::InUse { .. })), "{second:?}");
    drop(first);
    assert!(Journal::open(&path, &here()).unwrap().is_some());
}

fn heading() -> String {
    r#"{"line":"journal","format":"pathbench.journal/1","boot_id":"b1","inode":4026531840,"cookie":1}"#
        .to_owned()
        + "\n"
}

/// A journal whose second line begins this step.
fn journal_of(operation: &str, undo: &str) -> Vec<u8> {
    let begin = format!(r#"{{"line":"begin","step":0,"operation":{operation},"undo":["{undo}"]}}"#);
    format!("{}{begin}\n", heading()).into_bytes()
}

#[test]
fn a_journal_that_others_can_change_is_rejected() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    three_steps(&path);
    let refused = |text: &str| {
        let error = Journal::open(&path, &here()).unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("journal"), "{error}");
    };
    let permit = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    for mode in [0o620, 0o602, 0o666] {
        permit(mode);
        refused("other users can write to it");
    }
    permit(0o600);
    assert!(Journal::open(&path, &here()).unwrap().is_some());
    let second = directory.path().join("second");
    std::fs::hard_link(&path, &second).unwrap();
    refused("several hard links");
    std::fs::remove_file(&path).unwrap();
    symlink(&second, &path).unwrap();
    refused("a symbolic link");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    refused("a directory");
    // Root can give a file away; another user cannot make one of others.
    std::fs::remove_dir(&path).unwrap();
    if std::os::unix::fs::chown(&second, Some(12_345), None).is_ok() {
        std::fs::rename(&second, &path).unwrap();
        refused("it belongs to user 12345");
    }
}

#[test]
fn only_settings_of_plans_are_accepted() {
    let parse = |text: &[u8]| ParsedJournal::parse(Path::new("journal"), text, &here());
    let set = |key: &str, before: &str| {
        journal_of(
            &format!(r#"{{"change":"set-sysctl","key":"{key}","before":"{before}","after":"1"}}"#),
            "sysctl",
        )
    };
    for key in ["net/mptcp/enabled", "net/ipv4/conf/eth0/rp_filter", "net/ipv4/conf/eth0.7/arp_announce"] {
        assert_eq!(parse(&set(key, "0")).unwrap().entries.len(), 1, "{key}");
    }
    for key in [
        "kernel.core_pattern",
        "kernel/core_pattern",
        "net.mptcp.enabled",
        "net/ipv4/conf/eth0/forwarding",
        "net/ipv4/conf/all/rp_filter",
        "net/ipv4/conf/../rp_filter",
        "net/ipv4/conf/a/b/rp_filter",
        "net/ipv4/conf//rp_filter",
        "net/ipv4/conf/sixteen-of-these/rp_filter",
    ] {
        let error = parse(&set(key, "0")).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("no setting that Pathbench changes"), "{error}");
    }
    for value in ["", "|/tmp/x", "1\\n2", "100000"] {
        let error = parse(&set("net/mptcp/enabled", value)).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("no value"), "{error}");
    }
}

#[test]
fn texts_of_a_journal_are_printable_and_bounded() {
    let parse = |text: &[u8]| ParsedJournal::parse(Path::new("journal"), text, &here());
    let endpoint = r#"{"change":"close-first-subflow","address":"10.0.0.1","wait_ms":100}"#;
    let parsed = parse(&journal_of(endpoint, "\\u001b[2Jip\\u202e")).unwrap();
    assert!(!parsed.entries[0].undo_commands[0].contains(['\u{1b}', '\u{202e}']), "{parsed:?}");
    let error = parse(&journal_of(endpoint, &"x".repeat(600_000))).unwrap_err().to_string();
    assert!(error.contains("line 2") && error.len() < 1000, "{error}");
    let error = parse(&journal_of(&endpoint.replace("100", "1000000000"), "")).unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("wait"), "{error}");
    let elsewhere = heading().replace("b1", &"\\u001b".repeat(5000));
    let error = parse(elsewhere.as_bytes()).unwrap_err().to_string();
    assert!(error.len() < 1000 && !error.contains('\u{1b}'), "{error}");
}

#[test]
fn a_journal_of_another_namespace_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    three_steps(&path);
    let before = std::fs::read(&path).unwrap();
    for (there, remedy) in [
        (NamespaceIdentity { inode: 7, ..here() }, "undo it in that namespace"),
        (NamespaceIdentity { cookie: Some(2), ..here() }, "undo it in that namespace"),
        (NamespaceIdentity { boot_id: "b2".to_owned(), ..here() }, "do not survive a reboot"),
    ] {
        for opened in
            [Journal::open(&path, &there).map(drop), Journal::open_or_create(&path, &there).map(drop)]
        {
            let error = opened.unwrap_err();
            assert!(matches!(error, JournalError::Elsewhere { .. }), "{error}");
            assert!(error.to_string().contains(remedy), "{error}");
        }
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn invalid_lines_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    three_steps(&path);
    let good = std::fs::read_to_string(&path).unwrap();
    let heading = good.lines().next().unwrap().to_owned();
    for (text, line) in [
        ("hello\n".to_owned(), 1),
        ("\n".to_owned(), 1),
        ("a file of another program without an end of line".to_owned(), 1),
        (format!("{good}{{\"line\":\"undone\",\"step\":9}}\ntorn"), good.lines().count() + 1),
        ("\u{0}\u{1}\n".to_owned(), 1),
        (heading.replace("/1", "/2") + "\n", 1),
        (format!("{heading}\n{{\"line\":\"done\",\"step\":0}}\n"), 2),
        (format!("{heading}\n{heading}\n"), 2),
        (format!("{good}{{\"line\":\"undone\",\"step\":9}}\n"), good.lines().count() + 1),
        (format!("{good}{{\"line\":\"undoing\",\"step\":9}}\n"), good.lines().count() + 1),
        (format!("{good}{{\"line\":\"kept\",\"step\":9}}\n"), good.lines().count() + 1),
        (good.replace("\"change\":\"add-route\"", "\"change\":\"fly\""), 2),
    ] {
        std::fs::write(&path, &text).unwrap();
        let error = Journal::open(&path, &here()).unwrap_err();
        assert!(
            matches!(error, JournalError::Corrupt { line: found, .. } if found == line),
            "{text:?}: {error}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "it is left as it was");
    }
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let target = directory.path().join("target");
    std::fs::write(&target, "").unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert!(matches!(Journal::open_or_create(&path, &here()), Err(JournalError::File { what: "open", .. })));
    assert_eq!(std::fs::read(&target).unwrap(), b"");
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_a_journal_or_unchanged(bytes: Vec<u8>, behind_a_heading: bool) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let mut text = Vec::new();
        if behind_a_heading {
            drop(Journal::open_or_create(&path, &here()).unwrap());
            text = std::fs::read(&path).unwrap();
        }
        text.extend(bytes);
        std::fs::write(&path, &text).unwrap();
        if Journal::open(&path, &here()).is_err() {
            prop_assert_eq!(std::fs::read(&path).unwrap(), text);
        }
    }
}
