//! Journals: a journal that is accepted has settings of plans only, and nothing that a terminal interprets.

use pathbench_host::change::journal::ParsedJournal;
use pathbench_host::change::{NamespaceIdentity, Operation};
use std::path::Path;

pub(crate) fn here() -> NamespaceIdentity {
    NamespaceIdentity { boot_id: "b1".to_owned(), inode: 4_026_531_840, cookie: Some(1) }
}

pub(crate) fn run(bytes: &[u8]) {
    let journal = match ParsedJournal::parse(Path::new("journal"), bytes, &here()) {
        Ok(journal) => journal,
        Err(error) => {
            assert!(is_plain(&error.to_string()), "{error}");
            return;
        }
    };
    assert!(journal.length <= bytes.len());
    for entry in &journal.entries {
        assert!(entry.undo_commands.iter().all(|command| is_plain(command)), "{entry:?}");
        if let Operation::SetSysctl { key, before, after } = &entry.operation {
            let is_known = key == "net/mptcp/enabled"
                || ["/rp_filter", "/arp_ignore", "/arp_announce"].iter().any(|name| key.ends_with(name));
            assert!(is_known && key.starts_with("net/") && !key.contains(".."), "{key}");
            assert!([before, after].iter().all(|value| value.parse::<u16>().is_ok()), "{entry:?}");
        }
        let _undo = entry.operation.undo_commands(&[(1, "eth0".to_owned())].into());
    }
    // The accepted text is accepted again.
    let again = ParsedJournal::parse(Path::new("journal"), &bytes[..journal.length], &here());
    if journal.length > 0 {
        assert!(again.is_ok_and(|again| again.entries == journal.entries));
    }
}

fn is_plain(text: &str) -> bool {
    !text.chars().any(char::is_control)
}
