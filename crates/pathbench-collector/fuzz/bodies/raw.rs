//! Raw parts from an untrusted client: unpacked within a directory, within bounds, and for everybody without addresses.

use super::input::{Input, changed};
use pathbench_api::anonymise::Anonymiser;
use pathbench_collector::reader::unpacked::{Effort, Unpacked};
use pathbench_collector::task::Cancellation;
use pathbench_collector::viewer::Viewer;
use serde_json::{Value, json};
use std::fs;

const NAMES: [&str; 16] = [
    "run.json",
    "samples.jsonl",
    "events.jsonl",
    "result/run.json",
    "result/events.jsonl",
    "./run.json",
    "../run.json",
    "../../../../tmp/run.json",
    "/run.json",
    "a/b/run.json",
    "run.json/",
    "run.json/run.json",
    "trace.json",
    "x.pcapng",
    "..",
    "",
];
const KINDS: &[u8] = b"0001234567xgLKSAVMN\0";

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut archive = Vec::new();
    for _ in 0..input.below(6) {
        entry(&mut input, &mut archive);
    }
    if !input.byte().is_multiple_of(4) {
        archive.extend([0; 1024]);
    }
    let mut raw = if input.byte().is_multiple_of(16) {
        input.bytes(300).to_vec()
    } else {
        zstd::encode_all(archive.as_slice(), 1).expect("memory")
    };
    for _ in 0..input.below(4) / 2 {
        let at = input.below(raw.len());
        if let Some(byte) = raw.get_mut(at) {
            *byte ^= input.byte();
        }
    }
    for viewer in [Viewer::Operator, Viewer::Everybody] {
        let anonymiser = (viewer == Viewer::Everybody).then(Anonymiser::default);
        let Ok(unpacked) = Unpacked::from_raw(&raw, anonymiser, Effort::Full, &Cancellation::default())
        else {
            continue;
        };
        let mut files = 0;
        for file in fs::read_dir(unpacked.path()).expect("a directory") {
            let file = file.expect("an entry");
            assert!(file.file_type().expect("a type").is_file(), "{file:?}");
            let name = file.file_name().into_string().expect("a name");
            assert!(NAMES.contains(&name.as_str()) && !name.contains("pcap"), "{name}");
            let text = fs::read(file.path()).expect("a file");
            let shown = String::from_utf8_lossy(&text);
            assert!(viewer == Viewer::Operator || !has_address(&shown), "{name}: {shown}");
            files += 1;
        }
        let packed = unpacked.packed(&Cancellation::default()).expect("packed");
        let again = Unpacked::from_raw(&packed, None, Effort::Full, &Cancellation::default())
            .expect("what was packed is unpacked");
        assert_eq!(fs::read_dir(again.path()).expect("a directory").count(), files);
    }
}

/// Whether the address of the documents is in `text`. A change of a byte can make more digits of it, which are no address.
fn has_address(text: &str) -> bool {
    const ADDRESS: &str = "192.0.2.77";
    text.match_indices(ADDRESS).any(|(at, _)| {
        let around = [text[..at].chars().next_back(), text[at + ADDRESS.len()..].chars().next()];
        !around.into_iter().flatten().any(|one| one.is_ascii_digit())
    })
}

/// A header whose fields need not fit the file, and the file.
fn entry(input: &mut Input<'_>, archive: &mut Vec<u8>) {
    let mut header = tar::Header::new_gnu();
    let name = NAMES[input.below(NAMES.len())];
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(tar::EntryType::new(KINDS[input.below(KINDS.len())]));
    let link = b"/etc/passwd";
    header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link);
    let body = body(input);
    let size = if input.byte().is_multiple_of(8) { input.number() } else { body.len() as u64 };
    header.set_size(size);
    if input.byte().is_multiple_of(8) {
        let at = input.below(512);
        header.as_mut_bytes()[at] = input.byte();
    }
    if !input.byte().is_multiple_of(16) {
        header.set_cksum();
    }
    archive.extend(header.as_bytes());
    archive.extend(&body);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

fn body(input: &mut Input<'_>) -> Vec<u8> {
    let document = json!({ "ssid": "home", "text": "192.0.2.77 at home", "list": [1, 2.5, null, { "192.0.2.77": true }] });
    match input.byte() % 6 {
        0 => input.bytes(100).to_vec(),
        1 => b"[".repeat(10_000),
        2 => format!("{{\"path\":\"{}\"}}", "../".repeat(40)).into_bytes(),
        3 => format!("{}\n{}\n", changed(input, document.clone()), Value::Null).into_bytes(),
        _ => changed(input, document).to_string().into_bytes(),
    }
}
