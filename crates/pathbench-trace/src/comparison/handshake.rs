//! The SYNs, or SYN/ACKs, of one end at two points: which copies are the same packet.
//!
//! A SYN that was lost is sent again with another time stamp and another IP identification. The first copies of the two
//! points may thus be different packets.

/// Copies that are kept per point.
const MOST_COPIES: usize = 16;

/// A SYN or SYN/ACK at one point.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copy {
    pub(super) time_ns: u64,
    /// Number of the packet at its point.
    pub(super) serial: u64,
    /// Options, a bit each.
    pub(super) kinds: u8,
    pub(super) mss: Option<u16>,
    pub(super) stamp: Option<u32>,
    /// 0 if the packet has none.
    pub(super) identification: u16,
}

/// Copies by point, in order of time.
#[derive(Debug, Clone, Default)]
pub(super) struct Copies([Vec<Copy>; 2]);

impl Copies {
    pub(super) fn add(&mut self, point: usize, copy: Copy) {
        if self.0[point].len() < MOST_COPIES {
            self.0[point].push(copy);
        }
    }

    pub(super) fn first(&self, point: usize) -> Option<&Copy> {
        self.0[point].first()
    }

    /// Copies of the same packets: by time stamp, by identification, and otherwise by their order if no copy is absent
    /// at a point.
    pub(super) fn pairs(&self) -> Vec<[Copy; 2]> {
        let [first, second] = &self.0;
        let equal = |is_equal: &dyn Fn(&Copy, &Copy) -> bool| -> Vec<[Copy; 2]> {
            let unique = |copies: &[Copy], copy: &Copy| {
                copies.iter().filter(|other| is_equal(copy, other)).count() == 1
            };
            let one = |copy: &Copy| {
                let other = second.iter().find(|other| is_equal(copy, other))?;
                (unique(second, copy) && unique(first, other)).then_some([*copy, *other])
            };
            first.iter().filter_map(one).collect()
        };
        let by_stamp = equal(&|one, other| one.stamp.is_some() && one.stamp == other.stamp);
        if !by_stamp.is_empty() {
            return by_stamp;
        }
        let by_identification =
            equal(&|one, other| one.identification != 0 && one.identification == other.identification);
        if !by_identification.is_empty() && shift(&by_identification).is_some() {
            return by_identification;
        }
        let by_order: Vec<[Copy; 2]> = first.iter().zip(second).map(|(one, other)| [*one, *other]).collect();
        if first.len() == second.len() && shift(&by_order).is_some() { by_order } else { Vec::new() }
    }

    /// Time stamps of point 1 minus those of point 0: a middlebox may add a constant.
    pub(super) fn stamp_shift(&self) -> u32 {
        shift(&self.pairs()).unwrap_or(0)
    }
}

/// The difference of the time stamps, if it is the same of all pairs; 0 without time stamps.
fn shift(pairs: &[[Copy; 2]]) -> Option<u32> {
    let mut shifts = pairs.iter().map(|[one, other]| match (one.stamp, other.stamp) {
        (Some(one), Some(other)) => other.wrapping_sub(one),
        _ => 0,
    });
    let first = shifts.next()?;
    shifts.all(|shift| shift == first).then_some(first)
}
