//! A client that acknowledges everything but the first packet of a stream.

use super::tampered::{Hooks, tampered};
use super::*;
use bytes::Bytes;
use noq_proto::{StreamId, VarInt};
use pathbench_mpquic::MOST_HELD_BYTES;

/// Longest piece that is passed to the library at a time.
const PIECE_BYTES: u64 = 128 << 10;

/// The first bytes of the stream.
const BEGINNING: [u8; 16] = *b"the first packet";

/// Regression: a server kept all data sent to such a client, since the library counts only unacknowledged bytes, but
/// frees only the bytes before the first unacknowledged one.
#[test]
fn a_client_that_acknowledges_all_but_the_first_packet_does_not_make_a_server_keep_everything() {
    let mut setup = Setup::new(&[link(100_000, 0)], Scheduler::LowestRtt);
    setup.library_only = [true, false];
    setup.adjust[0] = |transport| {
        let huge = VarInt::from_u32(1 << 30);
        transport.stream_receive_window(huge).receive_window(huge).send_window(1 << 20);
    };
    // The client cannot decrypt packets with these first bytes.
    setup.client_crypto = |crypto| {
        let accepts = |payload: &[u8]| !payload.windows(BEGINNING.len()).any(|part| part == BEGINNING);
        tampered(crypto, Hooks { accepts, ..Hooks::default() })
    };
    let mut world = World::established(&setup);
    world.client.reads_unordered = true;
    world.client.wanted_streams = 1;
    world.run_for(ms(20));
    let id: StreamId = *world.server.streams.first().expect("a stream");
    let mut block = vec![0; 256 << 10];
    block[..BEGINNING.len()].copy_from_slice(&BEGINNING);
    let (mut sent, mut most_held, mut refused) = (0, 0, 0);
    for _ in 0..100_000 {
        match world.server.core().write(id, &block, &mut Bytes::new()) {
            Ok(count) if count > 0 => {
                sent += count as u64;
                refused = 0;
                block[..BEGINNING.len()].fill(0);
            }
            _ => refused += 1,
        }
        world.run_for(ms(1));
        most_held = most_held.max(world.server.core().held_bytes());
        if refused > 1000 || sent > 3 * MOST_HELD_BYTES {
            break;
        }
    }
    assert!(world.server.ended().is_none(), "{:?}", world.server.ended());
    assert!(sent > MOST_HELD_BYTES / 2, "only {sent} bytes were sent: the hole was not tried");
    assert!(refused > 1000, "{sent} bytes were taken, {most_held} of them held");
    assert!(most_held <= MOST_HELD_BYTES + 2 * PIECE_BYTES, "{most_held} bytes held");
}
