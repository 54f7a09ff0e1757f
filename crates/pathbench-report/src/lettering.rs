//! Characters that names from files must not bring into a page, a picture or a terminal.

/// Whether `character` would move a cursor, end a line, hide, or turn the reading direction of what follows.
pub(crate) fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
        || matches!(character, '\u{fffe}' | '\u{ffff}')
}
