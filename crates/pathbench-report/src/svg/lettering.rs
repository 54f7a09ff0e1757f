//! The width of text for layout, in `DejaVu Sans`, the widest font of the figures.

/// How much wider bold text is.
pub(crate) const BOLD: f64 = 1.12;

pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size
}

fn advance(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | '\'' => 0.28,
        ' ' | '.' | ',' | ':' | ';' | '|' | '·' => 0.33,
        'f' | 't' | 'r' | '(' | ')' | '-' | 'I' | 'J' | '/' | '[' | ']' => 0.40,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '—' => 0.97,
        'A'..='Z' | '▼' | '▲' | '◆' | '≥' | '≤' | '×' | '+' | '<' | '>' | '=' | '→' => 0.80,
        'a'..='z' | '0'..='9' | '–' | '_' => 0.62,
        _ => 0.95,
    }
}

/// `text` truncated to at most `limit` pixels, with an ellipsis if something was cut.
pub(crate) fn fitted(text: &str, size: f64, limit: f64) -> String {
    if width(text, size) <= limit {
        return text.to_owned();
    }
    let mut fitted = String::new();
    let mut used = width("…", size);
    for character in text.chars() {
        used += advance(character) * size;
        if used > limit {
            break;
        }
        fitted.push(character);
    }
    fitted.truncate(fitted.trim_end().len());
    fitted + "…"
}

/// `text` broken at spaces into lines of at most `limit` pixels; a longer word is cut.
pub(crate) fn wrapped(text: &str, size: f64, limit: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let word = fitted(word, size, limit);
        let longer = if line.is_empty() { word.clone() } else { format!("{line} {word}") };
        if width(&longer, size) <= limit {
            line = longer;
        } else {
            lines.push(std::mem::replace(&mut line, word));
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_limit_and_lose_no_word() {
        let text = "goodput by path over time, with one very-long-word-that-does-not-fit-anywhere at the end";
        let lines = wrapped(text, 11.0, 160.0);
        assert!(lines.len() > 3);
        assert!(lines.iter().all(|line| width(line, 11.0) <= 160.0));
        assert_eq!(lines.join(" ").split(' ').count(), text.split(' ').count());
    }

    #[test]
    fn what_fits_stays_whole() {
        assert_eq!(fitted("mptcp", 12.0, 100.0), "mptcp");
        let cut = fitted("mptcp with a long name", 12.0, 60.0);
        assert!(cut.ends_with('…') && width(&cut, 12.0) <= 60.0, "{cut}");
    }
}
