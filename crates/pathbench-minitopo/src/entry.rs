//! Lines of `key:value`.

use pathbench_lab::scenario::Origin;
use pathbench_lab::scenario::{Ledger, MistakeKind};

const MOST_BYTES: usize = 1 << 20;

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) line: u32,
    pub(super) key: String,
    pub(super) value: String,
}

impl Entry {
    pub(super) fn wrong(
        &self,
        ledger: &Ledger,
        kind: MistakeKind,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        ledger.add(kind, &Origin::Line(self.line), &self.key, problem, remedy);
    }
}

/// The entries of a file; lines of nothing and lines that begin with `#` say nothing. Values have no control
/// characters.
pub(super) fn entries(content: &[u8], ledger: &Ledger) -> Vec<Entry> {
    let at = |line: usize| Origin::Line(u32::try_from(line + 1).unwrap_or(u32::MAX));
    if content.len() > MOST_BYTES {
        let problem = format!("the file has {} bytes", content.len());
        let remedy = format!("give one of minitopo's, of {MOST_BYTES} bytes at most");
        ledger.add(MistakeKind::Syntax, &at(0), "", problem, remedy);
        return Vec::new();
    }
    let Ok(text) = std::str::from_utf8(content) else {
        let valid = content.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let line = normalised(valid).matches('\n').count();
        ledger.add(MistakeKind::Syntax, &at(line), "", "the line is not text", "save the file as UTF-8");
        return Vec::new();
    };
    let text = normalised(text.strip_prefix('\u{feff}').unwrap_or(text));
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once(':') {
            Some((key, value)) if !key.trim().is_empty() && !line.contains(char::is_control) => {
                let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
                entries.push(Entry { line: u32::try_from(index + 1).unwrap_or(u32::MAX), key, value });
            }
            _ => {
                let shown: String = line.chars().take(40).collect();
                let remedy = "write key:value, as in path_c2r_0:20,80,20, or # before a comment";
                ledger.add(
                    MistakeKind::Syntax,
                    &at(index),
                    "",
                    format!("`{shown}` is no key with a value"),
                    remedy,
                );
            }
        }
    }
    entries
}

fn normalised(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}
