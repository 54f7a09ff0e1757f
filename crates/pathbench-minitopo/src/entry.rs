//! Lines of `key:value`.

use pathbench_lab::scenario::{At, MistakeLog};

pub(super) const MOST_BYTES: usize = 1 << 20;

#[derive(Debug, Clone)]
pub(super) struct KeyValue {
    pub(super) line: u32,
    pub(super) at: At,
    pub(super) value: String,
}

impl KeyValue {
    pub(super) fn key(&self) -> &str {
        &self.at.key
    }
}

/// The entries of a file. Ignores empty lines and lines that begin with `#`. Values have no control characters. A line
/// without a colon is a mistake if `strict`, else an entry without a key.
pub(super) fn entries(content: &[u8], ledger: &MistakeLog, strict: bool) -> Vec<KeyValue> {
    let at = |line: usize| At::new(ledger.line(u32::try_from(line + 1).unwrap_or(u32::MAX)), "");
    if content.len() > MOST_BYTES {
        let problem = format!("the file has {} bytes", content.len());
        ledger.wrong(&at(0), problem, format!("give one of minitopo's, of {MOST_BYTES} bytes at most"));
        return Vec::new();
    }
    let Ok(text) = std::str::from_utf8(content) else {
        let valid = content.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let line = normalise(valid).matches('\n').count();
        ledger.wrong(&at(line), "the line is not text", "save the file as UTF-8");
        return Vec::new();
    };
    let text = normalise(text);
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim().replace('\t', " ");
        let line = line.as_str();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line.split_once(':').or_else(|| (!strict).then_some(("", line)));
        match pair {
            Some((key, value))
                if (!key.trim().is_empty() || !line.contains(':')) && !line.contains(char::is_control) =>
            {
                let at = At { key: key.trim().to_owned(), ..at(index) };
                let line = u32::try_from(index + 1).unwrap_or(u32::MAX);
                entries.push(KeyValue { line, at, value: value.trim().to_owned() });
            }
            _ => {
                let shown: String = line.chars().take(40).collect();
                let remedy = "write key:value, as in path_c2r_0:20,80,20, or # before a comment";
                ledger.wrong(&at(index), format!("`{shown}` is no key with a value"), remedy);
            }
        }
    }
    entries
}

/// Converts all line ends to LF, and removes a byte order mark.
pub(super) fn normalise(text: &str) -> String {
    text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n")
}
