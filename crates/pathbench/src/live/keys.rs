//! The keys of the screen.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    Pause,
    Previous,
    Next,
    /// A run by its number, from 1.
    Select(usize),
    Help,
    Close,
}

/// Key and effect, for the help.
pub(super) const HELP: [(&str, &str); 6] = [
    ("q, Ctrl-C", "end the command in good order; again: at once"),
    ("Space, f", "pause and continue the display; the measurement continues"),
    ("←, p", "previous run"),
    ("→, n", "next run; after the last one, follow the newest"),
    ("1 to 9", "the run with this number"),
    ("?, Esc", "help; close it"),
];

/// The commands of bytes that a terminal in raw mode sends (ECMA-48 for the arrows). A key of several bytes comes in one
/// read. crossterm's reader is not used: it reads without end after the terminal has hung up.
pub(super) fn commands(mut bytes: &[u8]) -> Vec<Command> {
    let mut commands = Vec::new();
    while !bytes.is_empty() {
        let (command, length) = first(bytes);
        commands.extend(command);
        bytes = bytes.get(length..).unwrap_or_default();
    }
    commands
}

const ESCAPE: u8 = 0x1b;
const CTRL_C: u8 = 0x03;

/// The command of the first key, if it has one, and the number of the key's bytes.
fn first(bytes: &[u8]) -> (Option<Command>, usize) {
    match bytes {
        [ESCAPE, b'[' | b'O', rest @ ..] => {
            // Parameters, then one final byte.
            let parameters = rest.iter().take_while(|byte| (0x20..0x40).contains(*byte)).count();
            let command = match rest.get(parameters) {
                Some(b'C') => Some(Command::Next),
                Some(b'D') => Some(Command::Previous),
                _ => None,
            };
            (command, 3 + parameters)
        }
        [ESCAPE] => (Some(Command::Close), 1),
        // Alt with a key.
        [ESCAPE, ..] => (None, 2),
        [byte, ..] => (of_byte(*byte), 1),
        [] => (None, 0),
    }
}

const fn of_byte(byte: u8) -> Option<Command> {
    Some(match byte {
        b'q' | CTRL_C => Command::Quit,
        b' ' | b'f' => Command::Pause,
        b'p' => Command::Previous,
        b'n' => Command::Next,
        b'1'..=b'9' => Command::Select((byte - b'0') as usize),
        b'?' | b'h' => Command::Help,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_commands() {
        for (bytes, expected) in [
            (&b"q"[..], &[Command::Quit][..]),
            (b"\x03", &[Command::Quit]),
            (b"\x1b", &[Command::Close]),
            (b"\x1b[C\x1bOD", &[Command::Next, Command::Previous]),
            // With Ctrl; a function key; Alt with a key; a letter beyond ASCII.
            (b"\x1b[1;5C", &[Command::Next]),
            (b"\x1b[15~", &[]),
            (b"\x1bq", &[]),
            ("ä".as_bytes(), &[]),
            (b"3 f", &[Command::Select(3), Command::Pause, Command::Pause]),
            (b"\x1b[", &[]),
        ] {
            assert_eq!(commands(bytes), expected, "{bytes:?}");
        }
    }
}
