//! Text that somebody else wrote, on its way into a terminal, a page, a picture or a result.

/// Whether `character` would move a cursor, end a line, hide, or turn the reading direction of the text after it.
pub fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
        || matches!(character, '\u{fffe}' | '\u{ffff}')
}

/// `text` with a space in the place of every deceptive character, cut after `most` characters.
pub fn plain(text: &str, most: usize) -> String {
    let plain = |character| if is_deceptive(character) { ' ' } else { character };
    text.chars().take(most).map(plain).collect()
}
