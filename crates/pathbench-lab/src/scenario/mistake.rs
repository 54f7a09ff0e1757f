//! Mistakes in a file with their locations, reported together.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use thiserror::Error;

/// Problem and remedy.
pub(super) type Fault = (String, String);

/// A byte range in one of the texts of a [`MistakeLog`], in the order of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLocation {
    text: usize,
    start: usize,
    end: usize,
}

/// A location and its key path (`path.wlan.rate`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    pub location: SourceLocation,
    /// May be empty for invalid text.
    pub key: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The file, or the option of the command line (`--set path.wlan.rate=50`).
    pub file: String,
    /// Line in the file, from 1; `None` for options.
    pub line: Option<u32>,
    /// Key path of the mistake (`path.wlan.rate`); may be empty for text that is not TOML.
    pub key: String,
    pub problem: String,
    pub remedy: String,
    /// The line, or the option.
    source: String,
    /// The range of the mistake in `source`, in bytes.
    span: Range<usize>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.key.is_empty() { "" } else { ": " };
        let title = format!("{}{separator}{}", self.key, self.problem);
        let snippet = Snippet::source(&self.source)
            .path(&self.file)
            .line_start(self.line.unwrap_or(1) as usize)
            .annotation(AnnotationKind::Primary.span(self.span.clone()));
        let report =
            [Level::ERROR.primary_title(&title).element(snippet).element(Level::HELP.message(&self.remedy))];
        f.write_str(&Renderer::plain().render(&report))
    }
}

/// All mistakes, at least one: first the mistakes in the file by line, then the mistakes in options.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reports: Vec<_> = self.0.iter().map(Mistake::to_string).collect();
        f.write_str(&reports.join("\n\n"))
    }
}

/// Escapes control characters, so that a message is one line for any content of a file.
fn printable(text: impl Into<String>) -> String {
    let text = text.into();
    if !text.contains(char::is_control) {
        return text;
    }
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

#[derive(Debug)]
struct Text {
    /// The name of the file; empty for an option.
    file: String,
    text: String,
}

/// Collects mistakes while a file is read, so that all are reported together.
#[derive(Debug)]
pub struct MistakeLog {
    /// The text of the file is the first.
    texts: RefCell<Vec<Text>>,
    mistakes: RefCell<Vec<Mistake>>,
    /// Set while mistakes are ignored.
    pub(super) muted: Cell<bool>,
    /// Set if lines were omitted, because these lines may contain keys that seem to be missing.
    pub(super) incomplete: Cell<bool>,
    /// The keys that readers have requested from each table, and whether each key is valid there.
    pub(super) asked: RefCell<BTreeMap<String, Vec<(String, bool)>>>,
}

impl MistakeLog {
    pub fn new(file: impl Into<String>, text: impl Into<String>) -> Self {
        let text = Text { file: file.into(), text: text.into() };
        Self {
            texts: RefCell::new(vec![text]),
            mistakes: RefCell::default(),
            muted: Cell::new(false),
            incomplete: Cell::new(false),
            asked: RefCell::default(),
        }
    }

    /// Adds a text that contains values and returns its location. `file` is empty for an option of the command line.
    pub(super) fn text(&self, file: &str, text: String) -> SourceLocation {
        let mut texts = self.texts.borrow_mut();
        let location = SourceLocation { text: texts.len(), start: 0, end: text.len() };
        texts.push(Text { file: file.to_owned(), text });
        location
    }

    /// The beginning of the file.
    pub const fn top(&self) -> SourceLocation {
        SourceLocation { text: 0, start: 0, end: 0 }
    }

    pub fn line(&self, number: u32) -> SourceLocation {
        let text = &self.texts.borrow()[0].text;
        let before = text.split_inclusive('\n').take((number as usize).saturating_sub(1));
        let start = before.map(str::len).sum();
        let line = text[start..].lines().next().unwrap_or_default();
        SourceLocation { start, end: start + line.trim_end().len(), ..self.top() }
    }

    /// The line number (from 1) of a location; `None` for a location in an option.
    pub(super) fn number(&self, location: SourceLocation) -> Option<u32> {
        let text = &self.texts.borrow()[location.text];
        let before = text.text.get(..location.start).unwrap_or(&text.text);
        (!text.file.is_empty()).then(|| before.matches('\n').count() as u32 + 1)
    }

    /// Adds a mistake once: most variants of a matrix have the same mistakes.
    pub fn wrong(&self, at: &At, problem: impl Into<String>, remedy: impl Into<String>) {
        let line = self.number(at.location);
        let Text { file, text } = &self.texts.borrow()[at.location.text];
        let start =
            text.get(..at.location.start).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
        let source = text[start..].lines().next().unwrap_or_default();
        let [from, to] =
            [at.location.start, at.location.end].map(|offset| (offset - start).min(source.len()));
        let harmless =
            |range: Range<usize>| source.get(range).unwrap_or_default().replace(char::is_control, " ");
        let [before, marked, after] = [0..from, from..to, to..source.len()].map(harmless);
        let mistake = Mistake {
            file: printable(if file.is_empty() { text } else { file }),
            line,
            key: printable(&at.key),
            problem: printable(problem),
            remedy: printable(remedy),
            span: before.len()..before.len() + marked.len(),
            source: before + &marked + &after,
        };
        let mut mistakes = self.mistakes.borrow_mut();
        if !self.muted.get() && !mistakes.contains(&mistake) {
            mistakes.push(mistake);
        }
    }

    /// The value of `result`; adds a fault as a mistake.
    pub(super) fn value<T>(&self, at: &At, result: Result<T, Fault>) -> Option<T> {
        result.map_err(|(problem, remedy)| self.wrong(at, problem, remedy)).ok()
    }

    pub(super) fn file(&self) -> String {
        self.texts.borrow()[0].file.clone()
    }

    pub fn is_empty(&self) -> bool {
        self.mistakes.borrow().is_empty()
    }

    /// All mistakes: first the mistakes in the file by line, then the mistakes in options.
    pub fn into_mistakes(self) -> Mistakes {
        let mut mistakes = self.mistakes.into_inner();
        mistakes.sort_by_key(|mistake| mistake.line.unwrap_or(u32::MAX));
        Mistakes(mistakes)
    }
}

impl SourceLocation {
    /// The bytes `range` of this location's text.
    pub(super) const fn part(self, range: &Range<usize>) -> Self {
        Self { start: range.start, end: range.end, ..self }
    }
}

impl At {
    pub fn new(location: SourceLocation, key: impl Into<String>) -> Self {
        Self { location, key: key.into() }
    }
}

/// Most names that a message suggests.
const MOST_SUGGESTIONS: usize = 3;

/// The known names with few different letters, the nearest first.
pub(super) fn nearest<'a>(given: &str, known: &[&'a str]) -> Vec<&'a str> {
    let tolerated = 1 + given.chars().count() / 4;
    let distance = |name: &str| strsim::damerau_levenshtein(&given.to_lowercase(), &name.to_lowercase());
    let mut near: Vec<(usize, usize, &str)> = known
        .iter()
        // Among equally near names, the one that does not require removing a letter is first.
        .map(|name| (distance(name), given.len().saturating_sub(name.len()), *name))
        .filter(|(distance, _, name)| *distance <= tolerated && *distance < name.chars().count())
        .collect();
    near.sort_by_key(|(distance, removed, _)| (*distance, *removed));
    near.into_iter().map(|(_, _, name)| name).take(MOST_SUGGESTIONS).collect()
}

/// As [`nearest`]; without such a name those that contain the unknown one, as `mtu` does.
pub(super) fn similar<'a>(given: &str, known: &[&'a str]) -> Vec<&'a str> {
    let near = nearest(given, known);
    if !near.is_empty() || given.chars().count() < 3 {
        return near;
    }
    known.iter().copied().filter(|name| name.contains(given)).take(MOST_SUGGESTIONS).collect()
}

/// "did you mean `a`, `b` or `c`?"; `None` without a name.
pub(super) fn did_you_mean(names: &[&str]) -> Option<String> {
    let (last, before) = names.split_last()?;
    let before: Vec<String> = before.iter().map(|name| format!("`{name}`")).collect();
    let joint = if before.is_empty() { "" } else { " or " };
    Some(format!("did you mean {}{joint}`{last}`?", before.join(", ")))
}

/// A remedy: the nearest of the known names, and all of them.
pub(super) fn choices(given: &str, known: &[&str]) -> String {
    let list = match known {
        [] => return "there are none".to_owned(),
        [only] => format!("the only one is {only}"),
        many => format!("known are {}", many.join(", ")),
    };
    match nearest(given, known).first() {
        Some(name) => format!("did you mean `{name}`? {list}"),
        None => list,
    }
}
