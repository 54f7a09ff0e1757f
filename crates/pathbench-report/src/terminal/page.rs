//! Lines of text with ink, limited to the width of the terminal.

use crate::narrative::Tone;
use anstyle::{AnsiColor, Color, Style as Ansi};
use pathbench_record::text;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether to use colours (the caller honours `NO_COLOR`).
    pub colour: bool,
    /// Width in columns, at least [`LEAST_WIDTH`](Self::LEAST_WIDTH).
    pub width: usize,
}

impl Style {
    /// Columns below which lines are not wrapped any further.
    pub const LEAST_WIDTH: usize = 32;
}

/// Columns of a paragraph beside its start.
const FEWEST_COLUMNS: usize = 20;

/// The role of a piece of text; colours may be off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Strong,
    Dim,
    Good,
    Warn,
    Bad,
    Path(usize),
}

impl Ink {
    pub(super) const fn from_tone(tone: Tone) -> Self {
        match tone {
            Tone::Good => Self::Good,
            Tone::Mixed => Self::Warn,
            Tone::Bad => Self::Bad,
            Tone::Neutral => Self::Dim,
        }
    }

    fn ansi(self) -> Ansi {
        let coloured = |colour: AnsiColor| Ansi::new().fg_color(Some(Color::Ansi(colour)));
        match self {
            Self::Plain => Ansi::new(),
            Self::Strong => Ansi::new().bold(),
            Self::Dim => Ansi::new().dimmed(),
            Self::Good => coloured(AnsiColor::Green),
            Self::Warn => coloured(AnsiColor::Yellow),
            Self::Bad => coloured(AnsiColor::Red).bold(),
            Self::Path(rank) => coloured(PATHS[rank % PATHS.len()].0),
        }
    }
}

/// The colours of paths, for text and in tables.
pub(super) const PATHS: [(AnsiColor, comfy_table::Color); 6] = [
    (AnsiColor::Blue, comfy_table::Color::DarkBlue),
    (AnsiColor::Yellow, comfy_table::Color::DarkYellow),
    (AnsiColor::Green, comfy_table::Color::DarkGreen),
    (AnsiColor::Magenta, comfy_table::Color::DarkMagenta),
    (AnsiColor::Cyan, comfy_table::Color::DarkCyan),
    (AnsiColor::Red, comfy_table::Color::DarkRed),
];

pub(super) fn columns(text: &str) -> usize {
    text.width()
}

/// `text` with spaces for characters that move the cursor or change the reading direction: names come from files.
pub(super) fn clean(text: &str) -> String {
    text::printable(text, usize::MAX)
}

pub(super) fn fitted(text: &str, limit: usize) -> String {
    let text = clean(text);
    if columns(&text) <= limit {
        return text;
    }
    let mut kept = String::new();
    for character in text.chars() {
        if columns(&kept) + character.width().unwrap_or(0) + 1 > limit {
            break;
        }
        kept.push(character);
    }
    if limit > 0 { kept + "…" } else { kept }
}

/// Units of quantities. A unit stays on the line of its number.
const UNITS: [&str; 14] =
    ["%", "×", "µs", "ms", "s", "min", "h", "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "kB", "MB", "GB"];

pub(super) fn with_units_held(text: &str) -> String {
    let mut held = String::with_capacity(text.len());
    for (index, word) in text.split(' ').enumerate() {
        let bare = word.trim_end_matches([')', ',', ';', ':', '.']);
        let binds = held.ends_with(|last: char| last.is_ascii_digit()) && UNITS.contains(&bare);
        if index > 0 {
            held.push(if binds { '\u{a0}' } else { ' ' });
        }
        held.push_str(word);
    }
    held
}

#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    pieces: Vec<(Ink, String)>,
}

impl Line {
    pub(super) fn new(ink: Ink, text: &str) -> Self {
        Self::default().add(ink, text)
    }

    pub(super) fn add(mut self, ink: Ink, text: &str) -> Self {
        self.pieces.push((ink, clean(text)));
        self
    }

    /// Spaces up to `column`; at least one after existing text.
    pub(super) fn padded_to(self, column: usize) -> Self {
        let used = self.columns();
        let gap = if used == 0 { column } else { column.saturating_sub(used).max(1) };
        self.add(Ink::Plain, &" ".repeat(gap))
    }

    pub(super) fn columns(&self) -> usize {
        self.pieces.iter().map(|(_, text)| columns(text)).sum()
    }
}

pub(super) struct Page {
    pub(super) style: Style,
    pub(super) text: String,
}

impl Page {
    pub(super) fn new(style: Style) -> Self {
        Self { style: Style { width: style.width.max(Style::LEAST_WIDTH), ..style }, text: String::new() }
    }

    pub(super) fn line(&mut self, line: Line) {
        let mut left = self.style.width;
        let mut pieces: Vec<(Ink, String)> = Vec::new();
        for (ink, text) in line.pieces {
            let text = fitted(&text, left);
            left -= columns(&text).min(left);
            pieces.push((ink, text));
        }
        // No trailing blanks.
        while pieces.pop_if(|(_, last)| last.trim_end().is_empty()).is_some() {}
        if let Some((_, last)) = pieces.last_mut() {
            last.truncate(last.trim_end().len());
        }
        for (ink, text) in pieces {
            self.piece(ink, &text);
        }
        self.text.push('\n');
    }

    fn piece(&mut self, ink: Ink, text: &str) {
        let ansi = ink.ansi();
        if self.style.colour && ink != Ink::Plain && !text.is_empty() {
            self.text.extend([ansi.render().to_string().as_str(), text, &ansi.render_reset().to_string()]);
        } else {
            self.text += text;
        }
    }

    pub(super) fn heading(&mut self, title: &str, remark: &str) {
        self.text.push('\n');
        self.paragraph(Line::new(Ink::Strong, title).add(Ink::Plain, "  "), Ink::Dim, remark);
    }

    /// `text` after `start`, wrapped at spaces; further lines are indented to the start of the text. Lines do not
    /// break at a no-break space.
    pub(super) fn paragraph(&mut self, start: Line, ink: Ink, text: &str) {
        let mut indent = start.columns();
        let mut line = start;
        if indent > 4 && self.style.width < indent + FEWEST_COLUMNS {
            // Below a long start the text has the whole width.
            self.line(line);
            if text.is_empty() {
                return;
            }
            (indent, line) = (4, Line::default().padded_to(4));
        }
        let limit = self.style.width.saturating_sub(indent).max(1);
        for words in textwrap::wrap(&with_units_held(&clean(text)), limit) {
            self.line(line.add(ink, &words.replace('\u{a0}', " ")));
            line = Line::default().padded_to(indent);
        }
    }

    pub(super) fn more(&mut self, count: usize) {
        self.line(Line::new(Ink::Dim, &format!("  … and {count} more, in the report")));
    }

    /// `text` after `start`, never truncated or wrapped, so that it can be copied.
    pub(super) fn copyable(&mut self, start: Line, text: &str) {
        for (ink, piece) in start.pieces {
            self.piece(ink, &piece);
        }
        self.text += &clean(text);
        self.text.push('\n');
    }

    pub(super) fn ready(&mut self, line: &str) {
        self.text += line.replace('\u{a0}', " ").trim_end();
        self.text.push('\n');
    }
}
