//! TOML text → tree, with every line that is not TOML as a mistake of its own.

use super::mistake::{Ledger, MistakeKind};
use super::tree::{self, Item, Locate, Origin, Table, Value};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Keys that are lists of tables: `[[path]]`.
const LISTS: [&str; 5] = ["path", "link", "host", "router", "event"];

struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    ledger: &'a Ledger,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str, ledger: &'a Ledger) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(newlines.map(|(offset, _)| offset + 1)).collect();
        Self { text, starts, ledger }
    }

    /// From 1.
    fn number(&self, offset: usize) -> u32 {
        self.starts.partition_point(|start| *start <= offset) as u32
    }

    fn start(&self, offset: usize) -> usize {
        self.starts[self.number(offset) as usize - 1]
    }

    fn line(&self, offset: usize) -> &'a str {
        self.text[self.start(offset)..].lines().next().unwrap_or_default()
    }

    /// The value on the line at `offset`, and where it begins, if it is a single word without quotes.
    fn bare_value(&self, offset: usize) -> Option<(usize, &'a str)> {
        let line = self.line(offset);
        let (key, rest) = line.split_once('=')?;
        let value = rest.split('#').next()?.trim();
        let is_word = |c: char| c.is_ascii_alphanumeric() || "._:/%+-".contains(c);
        let begins = self.start(offset) + key.len() + 1 + (rest.len() - rest.trim_start().len());
        (!value.is_empty() && value.chars().all(is_word)).then_some((begins, value))
    }

    /// The key that the line at `offset` gives a value to; empty when it does not look like one.
    fn key(&self, offset: usize) -> String {
        let key =
            self.line(offset).split_once('=').map_or("", |(key, _)| key.trim().trim_matches(['"', '\'']));
        let plain = |c: char| c.is_alphanumeric() || "-_.@*() ".contains(c);
        if key.chars().all(plain) { key.to_owned() } else { String::new() }
    }
}

impl Locate for Lines<'_> {
    fn at(&self, offset: usize) -> Origin {
        Origin::Line(self.number(offset))
    }

    fn too_large(&self, offset: usize, digits: &str) {
        let problem = format!("`{digits}` is not a whole number that can be read");
        self.ledger.add(
            MistakeKind::Value,
            &self.at(offset),
            self.key(offset),
            problem,
            format!("give at most {}", i64::MAX),
        );
    }
}

/// The tree of a whole file.
///
/// The parser goes on after a line that is not TOML, and so do the checks that follow, as far as the tree can be
/// trusted: what is obviously meant is read as if it had been written right, other lines are not looked at any
/// more, and then no key counts as missing. `None` when an unclosed bracket or quote swallows what follows it.
pub(super) fn document(text: &str, ledger: &Ledger) -> Option<Table> {
    let (parsed, mut errors) = DeTable::parse_recoverable(text);
    let lines = Lines::new(text, ledger);
    if errors.is_empty() {
        return Some(tree::table(parsed.get_ref(), &lines));
    }
    errors.sort_by_key(|error| error.span().map_or(0, |span| span.start));
    let mut last_line = 0;
    let mut repaired = text.to_owned();
    let mut shift = 0;
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        let line = lines.number(span.start);
        // One slip makes the parser stumble several times over the same line.
        if line == last_line {
            continue;
        }
        last_line = line;
        let slip = slip(error.message(), &lines, &span);
        let key = lines.key(span.start);
        ledger.add(MistakeKind::Syntax, &lines.at(span.start), key, slip.problem, slip.remedy);
        match slip.cure {
            Cure::None => {}
            Cure::Replace(range, with) => {
                repaired.replace_range(range.start + shift..range.end + shift, &with);
                shift += with.len() - range.len();
            }
            Cure::Skip => ledger.distrust(line),
            // What the parser says after this is about a text that it reads as something else.
            Cure::Impossible => return None,
        }
    }
    // Nothing that is put in has a line break, so lines keep their numbers.
    let (parsed, _) = DeTable::parse_recoverable(&repaired);
    Some(tree::table(parsed.get_ref(), &Lines::new(&repaired, ledger)))
}

/// Something that is not TOML, in words, and how to go on after it.
struct Slip {
    problem: String,
    remedy: String,
    cure: Cure,
}

enum Cure {
    None,
    /// Put this text in place of that range, never a shorter one, and it is what is meant.
    Replace(Range<usize>, String),
    Skip,
    Impossible,
}

fn slip(message: &str, lines: &Lines<'_>, span: &Range<usize>) -> Slip {
    let (problem, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let text = lines.text.get(span.clone()).unwrap_or_default();
    let slip = |problem: String, remedy: String, cure| Slip { problem, remedy, cure };
    if let Some((start, value)) = lines.bare_value(span.start)
        && [
            "must be quoted",
            "invalid float",
            "invalid exponent",
            "invalid boolean",
            "invalid date",
            "may only go",
        ]
        .iter()
        .any(|word| problem.contains(word))
    {
        let cure = Cure::Replace(start..start + value.len(), format!("\"{value}\""));
        return slip(format!("`{value}` has no quotes"), format!("write it as \"{value}\""), cure);
    }
    if problem.contains("must be quoted") {
        return match text {
            "" => slip(
                "the key has no value".to_owned(),
                "give it one, or remove the key".to_owned(),
                Cure::Skip,
            ),
            text => slip(format!("`{text}` has no quotes"), format!("write it as \"{text}\""), Cure::None),
        };
    }
    if problem == "duplicate key" {
        let line = lines.line(span.start);
        if let Some(name) = line.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
            && LISTS.contains(&name)
        {
            let start = lines.start(span.start) + line.find('[').unwrap_or(0);
            let cure = Cure::Replace(start..start + name.len() + 2, format!("[[{name}]]"));
            return slip(format!("there are several [[{name}]]"), format!("write [[{name}]] here too"), cure);
        }
        return slip(format!("`{text}` is given twice"), "remove one of the two".to_owned(), Cure::None);
    }
    if problem.contains("unquoted key") {
        let remedy = "write the key in quotes, as in \"tcp@wlan.completed\" = true".to_owned();
        return slip("the key needs quotes".to_owned(), remedy, Cure::None);
    }
    if problem == "invalid basic string" || problem == "invalid literal string" {
        let remedy = format!("end it with {}", expected.trim_matches('`'));
        return slip("the text has no closing quote".to_owned(), remedy, Cure::None);
    }
    let remedy = match expected {
        "" | "nothing" => "write it as TOML has it, for example key = \"value\"".to_owned(),
        expected => format!("here belongs {}", expected.replace(", ", " or ")),
    };
    let swallowing = ["comma", "unclosed array", "unclosed inline", "in array", "multi-line"];
    let cure = match problem {
        "unclosed table" => Cure::Replace(span.start..span.start, "]".to_owned()),
        "unclosed array table" => {
            Cure::Replace(span.start..span.start, expected.trim_matches('`').to_owned())
        }
        _ if swallowing.iter().any(|word| problem.contains(word)) => Cure::Impossible,
        _ => Cure::Skip,
    };
    slip(format!("this is not TOML: {problem}"), remedy, cure)
}

struct Given<'a> {
    option: &'a str,
    digits_lost: std::cell::Cell<bool>,
}

impl Locate for Given<'_> {
    fn at(&self, _offset: usize) -> Origin {
        Origin::Option(self.option.to_owned())
    }

    fn too_large(&self, _offset: usize, _digits: &str) {
        self.digits_lost.set(true);
    }
}

/// A value of the command line: TOML where it is TOML (`1400`, `true`, `["tcp", "mptcp"]`), else a text.
pub(super) fn value(text: &str, option: &str) -> Item {
    let given = Given { option, digits_lost: std::cell::Cell::new(false) };
    if let Ok(parsed) = DeValue::parse(text) {
        let Range { start, .. } = parsed.span();
        let item = tree::item(parsed.get_ref(), start, &given);
        if !given.digits_lost.get() {
            return item;
        }
    }
    Item { value: Value::Text(text.to_owned()), origin: given.at(0) }
}
