//! TCP options and those of MPTCP in them: no panic, and only values that the option has.

use pathbench_trace::mptcp::options::{MptcpOption, parse, widen};
use pathbench_trace::packet::tcp_options::{TcpOption, options};

/// Input: flags (SYN 2, ACK 16), then the options of a segment.
pub(crate) fn run(input: &[u8]) {
    let Some((flags, rest)) = input.split_first() else { return };
    let bytes = rest.get(..rest.len().min(40)).unwrap_or_default();
    for option in options(bytes) {
        let TcpOption::Mptcp(option) = option else { continue };
        match parse(option, flags & 2 != 0, flags & 16 != 0) {
            MptcpOption::Dss(signal) => {
                if let Some(mapping) = signal.mapping {
                    let wide = widen(mapping.data_sequence, u64::from(*flags) << 56);
                    assert_eq!(widen(mapping.data_sequence, wide), wide);
                }
                assert!(option.len() >= 4 && option.len() <= 28);
            }
            MptcpOption::RemoveAddress(remove) => assert!(remove.ids().len() + 3 == option.len()),
            MptcpOption::Malformed { .. } | MptcpOption::Unknown { .. } => {}
            _ => assert!(option.len() >= 3),
        }
    }
}
