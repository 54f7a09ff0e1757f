//! Lines of text with ink, held to the width of the terminal.

use super::Style;
use crate::narrative::Tone;
use anstyle::{AnsiColor, Color, Style as Ansi};
use pathbench_record::text;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What a piece of text is, not how it looks: colours may be off.
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
    pub(super) const fn of(tone: Tone) -> Self {
        match tone {
            Tone::Good => Self::Good,
            Tone::Mixed => Self::Warn,
            Tone::Bad => Self::Bad,
            Tone::Neutral => Self::Dim,
        }
    }

    fn ansi(self) -> Ansi {
        const PATHS: [AnsiColor; 6] = [
            AnsiColor::Blue,
            AnsiColor::Yellow,
            AnsiColor::Green,
            AnsiColor::Magenta,
            AnsiColor::Cyan,
            AnsiColor::Red,
        ];
        let coloured = |colour: AnsiColor| Ansi::new().fg_color(Some(Color::Ansi(colour)));
        match self {
            Self::Plain => Ansi::new(),
            Self::Strong => Ansi::new().bold(),
            Self::Dim => Ansi::new().dimmed(),
            Self::Good => coloured(AnsiColor::Green),
            Self::Warn => coloured(AnsiColor::Yellow),
            Self::Bad => coloured(AnsiColor::Red).bold(),
            Self::Path(rank) => coloured(PATHS[rank % PATHS.len()]),
        }
    }
}

pub(super) fn columns(text: &str) -> usize {
    text.width()
}

/// `text` with spaces for what would move the cursor or turn the reading direction: names come from files.
pub(super) fn clean(text: &str) -> String {
    text::plain(text, usize::MAX)
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

/// Units of quantities, which stay on the line of their number.
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
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn add(mut self, ink: Ink, text: &str) -> Self {
        self.pieces.push((ink, clean(text)));
        self
    }

    /// Spaces up to `column`, and at least one when there is already something there.
    pub(super) fn padded_to(self, column: usize) -> Self {
        let used = self.columns();
        let gap = if used == 0 { column } else { column.saturating_sub(used).max(1) };
        self.add(Ink::Plain, &" ".repeat(gap))
    }

    pub(super) fn columns(&self) -> usize {
        self.pieces.iter().map(|(_, text)| columns(text)).sum()
    }
}

#[derive(Debug)]
pub(super) struct Page {
    style: Style,
    text: String,
}

impl Page {
    pub(super) fn new(style: Style) -> Self {
        Self { style: Style { width: style.width.max(80), ..style }, text: String::new() }
    }

    pub(super) fn has_colour(&self) -> bool {
        self.style.colour
    }

    /// Columns of the terminal, 80 at least.
    pub(super) fn width(&self) -> usize {
        self.style.width
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    pub(super) fn line(&mut self, line: Line) {
        let mut left = self.width();
        let mut pieces: Vec<(Ink, String)> = Vec::new();
        for (ink, text) in line.pieces {
            let text = fitted(&text, left);
            left -= columns(&text).min(left);
            pieces.push((ink, text));
        }
        // Blanks at the end help nobody.
        while let Some((_, last)) = pieces.last_mut() {
            last.truncate(last.trim_end().len());
            if !last.is_empty() {
                break;
            }
            pieces.pop();
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
        self.blank();
        self.paragraph(Line::new().add(Ink::Strong, title).add(Ink::Plain, "  "), Ink::Dim, remark);
    }

    /// `text` after `start`, wrapped at spaces, its further lines indented to where it began. A no-break space
    /// holds its neighbours together.
    pub(super) fn paragraph(&mut self, start: Line, ink: Ink, text: &str) {
        let indent = start.columns();
        let room = self.width().saturating_sub(indent).max(20);
        let mut line = start;
        for words in textwrap::wrap(&with_units_held(&clean(text)), room) {
            self.line(line.add(ink, &words.replace('\u{a0}', " ")));
            line = Line::new().padded_to(indent);
        }
    }

    pub(super) fn more(&mut self, count: usize) {
        self.line(Line::new().add(Ink::Dim, &format!("  … and {count} more, in the report")));
    }

    /// `text` after `start`, never cut or wrapped, so that it can be copied.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn page(colour: bool) -> Page {
        Page::new(Style { colour, width: 80 })
    }

    #[test]
    fn long_text_wraps_under_its_beginning() {
        let mut page = page(false);
        page.paragraph(Line::new().add(Ink::Plain, "  - "), Ink::Plain, &"word ".repeat(40));
        let text = page.finish();
        assert!(text.lines().all(|line| columns(line) <= 80));
        assert!(text.lines().skip(1).all(|line| line.starts_with("    word")));
        assert_eq!(text.matches("word").count(), 40);
    }

    #[test]
    fn escape_sequences_from_files_do_not_reach_the_terminal() {
        let mut page = page(true);
        page.line(Line::new().add(Ink::Plain, "a\u{1b}[2Jb\u{202e}c"));
        assert_eq!(page.finish(), "a [2Jb c\n");
    }

    #[test]
    fn colours_only_when_asked_for() {
        let mut plain = page(false);
        plain.line(Line::new().add(Ink::Bad, "x"));
        assert_eq!(plain.finish(), "x\n");
        let mut coloured = page(true);
        coloured.line(Line::new().add(Ink::Bad, "x"));
        assert!(coloured.finish().contains("\u{1b}["));
    }
}
