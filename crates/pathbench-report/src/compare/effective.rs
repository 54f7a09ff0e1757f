//! The value of a key that a result was made with: from its command line, else from the text of its scenario.

use crate::view::value_text;
use pathbench_record::document::ResultDocument;

/// Of a key that neither the command line nor the text of the scenario sets.
const DEFAULT: &str = "the default";

pub(super) fn value(document: &ResultDocument, key: &str) -> String {
    let set = document.scenario.overrides.get(key).map(value_text);
    let seed = || (key == "run.seed").then(|| document.seed.to_string());
    set.or_else(seed)
        .or_else(|| from_text(&document.scenario.text, key))
        .unwrap_or_else(|| DEFAULT.to_owned())
}

/// The value of `path.wlan.rate` from `[[path]]` with `name = "wlan"`, or of `run.duration` from `[run]`. A value over
/// several lines is not found.
fn from_text(text: &str, key: &str) -> Option<String> {
    // The keys before the first header are of the whole file. Each `[[path]]` begins another item.
    let mut found: Vec<(&str, Vec<(&str, String)>)> = vec![("", Vec::new())];
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.split('#').next().unwrap_or(header);
            found.push((header.trim_matches(['[', ']', ' ']), Vec::new()));
        } else if let Some((name, value)) = line.split_once('=') {
            found.last_mut()?.1.push((name.trim(), bare(value.trim())));
        }
    }
    let full_name = |table: &str, values: &[(&str, String)], name: &str| {
        let item = values.iter().find(|(name, _)| *name == "name").map(|(_, value)| value.as_str());
        let parts =
            [Some(table).filter(|table| !table.is_empty()), item.filter(|_| !table.is_empty()), Some(name)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(".")
    };
    found.iter().find_map(|(table, values)| {
        let is_wanted = |(name, _): &&(&str, String)| full_name(table, values, name) == key;
        values.iter().find(is_wanted).map(|(_, value)| value.clone())
    })
}

/// The value without quotes and comment.
fn bare(value: &str) -> String {
    match value.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
        Some((text, _)) => text.to_owned(),
        None => value.split(" #").next().unwrap_or(value).trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_key_is_the_one_in_force() {
        let text = "name = \"two\"\n[[path]]\nname = \"eth\"\nrate = \"10mbit\"\n\n[[path]]\nrate = \"50mbit\"  # nominal\n\
                    name = \"wlan\"\n# rate = \"1mbit\"\n[run]\nrepeat = 3 # times\n[run.throughput]\ndirection = \"upload\"\n";
        let mut document = ResultDocument { seed: 7, ..ResultDocument::default() };
        document.scenario.text = text.to_owned();
        document.scenario.overrides.insert("path.eth.rate".to_owned(), "20mbit".into());
        for (key, expected) in [
            ("path.eth.rate", "20mbit"),
            ("path.wlan.rate", "50mbit"),
            ("run.repeat", "3"),
            ("run.seed", "7"),
            ("run.throughput.direction", "upload"),
            ("path.eth.delay", DEFAULT),
            ("--duration", DEFAULT),
        ] {
            assert_eq!(value(&document, key), expected, "{key}");
        }
    }
}
