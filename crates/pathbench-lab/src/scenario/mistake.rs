//! What is wrong with a scenario: one mistake, and the list of all of them.

use super::tree::Origin;
use std::cell::RefCell;
use std::fmt;
use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MistakeKind {
    /// The text is not TOML.
    Syntax,
    /// A key that nothing reads.
    UnknownKey,
    /// A key that must be there is not.
    Missing,
    /// A value of the wrong type.
    Type,
    /// A value that cannot be read, or lies outside its range.
    Value,
    /// The name of something that does not exist.
    Reference,
    /// The same name or address twice.
    Duplicate,
    /// Two values that do not go together.
    Conflict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub kind: MistakeKind,
    /// The file, or the option of the command line (`--set path.wlan.rate=50`).
    pub file: String,
    /// Line in the file, from 1; `None` for options.
    pub line: Option<u32>,
    /// Key path of what is wrong (`path.wlan.rate`); may be empty for text that is not TOML.
    pub key: String,
    pub problem: String,
    pub remedy: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " {}; {}", self.problem, self.remedy)
    }
}

/// All mistakes of a scenario, at least one: those of the file by line, then those of the command line.
///
/// Prints one per line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            mistake.fmt(f)?;
        }
        Ok(())
    }
}

/// Whatever a file has in it, a message is one line that does nothing to a terminal.
fn printable(text: impl Into<String>) -> String {
    let text = text.into();
    if !text.contains(char::is_control) {
        return text;
    }
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// Collects mistakes while a scenario is read, so that all of them are reported at once.
#[derive(Debug)]
pub struct Ledger {
    file: String,
    mistakes: RefCell<Vec<Mistake>>,
    /// Lines that are not TOML: what was read there says nothing.
    distrusted: RefCell<Vec<u32>>,
}

impl Ledger {
    pub fn new(file: impl Into<String>) -> Self {
        Self { file: file.into(), mistakes: RefCell::default(), distrusted: RefCell::default() }
    }

    /// Says that a line is not TOML: it is not looked at any more, and since it may have hidden a key, none is
    /// reported as missing.
    pub(super) fn distrust(&self, line: u32) {
        self.distrusted.borrow_mut().push(line);
    }

    /// Adds a mistake, unless it is there already (the variants of a matrix mostly share theirs).
    pub fn add(
        &self,
        kind: MistakeKind,
        origin: &Origin,
        key: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let distrusted = self.distrusted.borrow();
        let on_distrusted = matches!(origin, Origin::Line(line) if distrusted.contains(line));
        if (kind == MistakeKind::Missing && !distrusted.is_empty())
            || (kind != MistakeKind::Syntax && on_distrusted)
        {
            return;
        }
        let (file, line) = match origin {
            Origin::Line(line) => (self.file.clone(), Some(*line)),
            Origin::Option(option) => (option.clone(), None),
        };
        let (key, problem, remedy) = (printable(key), printable(problem), printable(remedy));
        let mistake = Mistake { kind, file, line, key, problem, remedy };
        let mut mistakes = self.mistakes.borrow_mut();
        if !mistakes.contains(&mistake) {
            mistakes.push(mistake);
        }
    }

    pub(super) fn file(&self) -> &str {
        &self.file
    }

    pub fn is_empty(&self) -> bool {
        self.mistakes.borrow().is_empty()
    }

    /// All mistakes in the order in which a person corrects them.
    pub fn into_mistakes(self) -> Mistakes {
        let mut mistakes = self.mistakes.into_inner();
        mistakes.sort_by_key(|mistake| mistake.line.unwrap_or(u32::MAX));
        Mistakes(mistakes)
    }
}
