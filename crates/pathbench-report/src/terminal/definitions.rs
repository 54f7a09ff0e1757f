//! Names with their descriptions, wrapped to the width of the terminal.

use super::page::{clean, columns};

/// Least columns of descriptions beside their names; on a narrower terminal they stand below.
const LEAST_BESIDE: usize = 40;
const LEAST: usize = 16;

/// Lines `  NAME  DESCRIPTION` no longer than `width` (a longer word excepted).
pub fn definitions(items: &[(&str, String)], width: usize) -> String {
    let longest = items.iter().map(|(name, _)| columns(name)).max().unwrap_or_default();
    let beside = 2 + longest + 2;
    let is_beside = width >= beside + LEAST_BESIDE;
    let indent = if is_beside { beside } else { 4 };
    let limit = width.saturating_sub(indent).max(LEAST);
    let mut text = String::new();
    for (name, description) in items {
        let mut line = format!("  {name}");
        if !is_beside && !description.is_empty() {
            text += &line;
            text.push('\n');
            line.clear();
        }
        for words in textwrap::wrap(&clean(description), limit) {
            line.extend(std::iter::repeat_n(' ', indent.saturating_sub(columns(&line))));
            text += (line + &words).trim_end();
            text.push('\n');
            line = String::new();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_the_terminal() {
        let long =
            "two paths with one fault each, a setting of a host or a middlebox, and what MPTCP makes of it";
        let items = [("hello", "short"), ("simult-flows-10-3-swapped", long), ("without", "")];
        let items = items.map(|(name, description)| (name, description.to_owned()));
        for width in [40, 80, 200] {
            let text = definitions(&items, width);
            assert!(text.lines().all(|line| columns(line) <= width), "{width}:\n{text}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let all = items.clone().map(|(name, description)| format!("{name} {description}")).join(" ");
            assert_eq!(words(&text), words(&all), "{width}");
        }
        assert_eq!(definitions(&items, 200).lines().count(), 3);
        assert_eq!(definitions(&items[..1], 40), "  hello\n    short\n");
        assert!(definitions(&items, 80).lines().nth(2).unwrap().starts_with(&" ".repeat(29)));
    }
}
