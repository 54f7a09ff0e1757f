//! The limits of a QUIC connection besides its congestion windows: the peer's flow control (RFC 9000, section 4), and a
//! send buffer of a requested size. The sender counts the time.

use super::input::{LimitInput, record};
use super::subflow::Subflow;
use pathbench_record::document::{LimitKind, LimitRecord};
use pathbench_record::sample::PathFigures;

pub(super) fn limits(input: &LimitInput<'_>, busy: &[&Subflow<'_>]) -> impl Iterator<Item = LimitRecord> {
    let share = |counter: fn(&PathFigures) -> Option<u64>| {
        let without_queue = busy.iter().filter(|one| !one.has_standing_queue());
        without_queue.filter_map(|one| one.grown(counter)).reduce(f64::max)
    };
    let window = share(|figures| figures.receive_window_limited_us).map(|share| {
        let because = format!(
            "the flow control windows of the peer were full {:.0} % of the time, while a congestion window had room",
            share * 100.0
        );
        record(input, LimitKind::ReceiveWindow, share, because)
    });
    let buffer = share(|figures| figures.send_buffer_limited_us).map(|share| {
        let because = format!(
            "`send_buffer` of the pattern was full of unacknowledged data {:.0} % of the time, while a congestion window \
             had room",
            share * 100.0
        );
        let found = record(input, LimitKind::SendBuffer, share, because);
        LimitRecord { remedy: Some("leave out `send_buffer` of the pattern".to_owned()), ..found }
    });
    [window, buffer].into_iter().flatten()
}
