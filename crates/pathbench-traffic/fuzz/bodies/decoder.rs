//! The decoder on arbitrary bytes: no panic, and the same events in one piece as byte by byte.

use pathbench_traffic::protocol::{DecodeError, Decoder, Event};

fn decode(pieces: &mut dyn Iterator<Item = &[u8]>) -> (Vec<Event>, Option<DecodeError>) {
    let mut decoder = Decoder::new(64 * 1024);
    let mut events: Vec<Event> = Vec::new();
    for mut rest in pieces {
        while !rest.is_empty() {
            match decoder.decode(rest) {
                Err(error) => return (events, Some(error)),
                Ok((consumed, event)) => {
                    rest = &rest[consumed..];
                    match (event, events.last_mut()) {
                        (None, _) => {}
                        (Some(Event::Payload(more)), Some(Event::Payload(run))) => *run += more,
                        (Some(event), _) => {
                            if let Event::Frame(frame) = &event {
                                assert!(frame.encode().is_ok(), "decoded what cannot be encoded");
                            }
                            events.push(event);
                        }
                    }
                }
            }
        }
    }
    (events, None)
}

pub(crate) fn run(bytes: &[u8]) {
    let whole = decode(&mut std::iter::once(bytes));
    let single = decode(&mut bytes.chunks(1));
    assert_eq!(whole, single);
}
