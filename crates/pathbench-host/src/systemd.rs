//! Settings in the files of systemd: a file and its drop-ins (systemd.unit(5), systemd-system.conf(5)).

use pathbench_record::file;
use std::fs;
use std::path::{Path, PathBuf};

/// Drop-ins of one file that are read.
const MOST_DROP_INS: usize = 256;
const MOST_BYTES: u64 = 1 << 20;

/// The texts that apply to the file `name`, in the order in which they apply: the file of the first of `directories` that has
/// it, then its drop-ins by name. A drop-in of an earlier directory hides those of its name in later ones. `names` of
/// drop-ins: also those of a template, or of all files of a type.
pub fn texts(root: &Path, directories: &[&str], name: &str, drop_in_names: &[&str]) -> Vec<String> {
    let directories: Vec<PathBuf> = directories.iter().map(|directory| root.join(directory)).collect();
    let mut drop_ins: Vec<PathBuf> = Vec::new();
    for directory in
        directories.iter().flat_map(|one| drop_in_names.iter().map(move |name| one.join(format!("{name}.d"))))
    {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(MOST_DROP_INS);
        let is_drop_in = |file: &PathBuf| file.extension().is_some_and(|end| end == "conf");
        for file in entries.map(|entry| entry.path()).filter(is_drop_in) {
            if !drop_ins.iter().any(|other| other.file_name() == file.file_name()) {
                drop_ins.push(file);
            }
        }
    }
    drop_ins.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    let main = directories.iter().map(|directory| directory.join(name)).find(|file| file.exists());
    let files = main.iter().chain(&drop_ins);
    files.filter_map(|file| file::read_text_named(file, MOST_BYTES).ok()).collect()
}

/// The values of `key` in `[section]` of the texts, in order. An empty value, which discards those before it, is included.
pub fn values(texts: &[String], section: &str, key: &str) -> Vec<String> {
    let mut values = Vec::new();
    for text in texts {
        let mut is_in_section = false;
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let mut line = line.trim().to_owned();
            if line.starts_with(['#', ';']) {
                continue;
            }
            // A line that ends with a backslash continues on the next one; comments in between are skipped.
            while let Some(begun) = line.strip_suffix('\\') {
                let next = lines.by_ref().map(str::trim).find(|next| !next.starts_with(['#', ';']));
                line = format!("{begun} {}", next.unwrap_or_default());
            }
            if let Some(name) = line.strip_prefix('[') {
                is_in_section = name.strip_suffix(']') == Some(section);
            } else if let Some((name, value)) = line.split_once('=')
                && is_in_section
                && name.trim() == key
            {
                values.push(value.trim().to_owned());
            }
        }
    }
    values
}

/// The last value of `key` in `[section]` of the texts; an empty one is none.
pub fn value(texts: &[String], section: &str, key: &str) -> Option<String> {
    values(texts, section, key).pop().filter(|value| !value.is_empty())
}

/// A word of `ExecStart=` (systemd.service(5)).
pub fn quote(word: &str) -> String {
    let word = word.replace('%', "%%").replace('$', "$$");
    if word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c)) {
        return word;
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}
