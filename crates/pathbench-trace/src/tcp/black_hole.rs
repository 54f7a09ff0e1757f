//! The suspicion that a path loses large packets.

/// Whether packets above a size are lost while smaller ones arrive.
#[derive(Debug, Clone, Copy, Default)]
pub struct BlackHole {
    /// IP length of the largest packet whose data were acknowledged without having been sent in a smaller one.
    pub largest_acknowledged: u32,
    /// IP length and end of the packet at the left edge of the outstanding data, and its retransmissions.
    pub(super) edge: (u64, u32, u32),
    /// Smallest IP length that was retransmitted at least thrice and never acknowledged at that size.
    pub lost_above: Option<u32>,
}

/// Retransmissions of one packet at one size before it is suspected to be too large.
const RETRANSMISSIONS_OF_A_BLACK_HOLE: u32 = 3;

impl BlackHole {
    pub(super) fn sent_again(&mut self, end: u64, ip_length: u32) {
        match self.edge {
            (edge, length, count) if edge == end && length == ip_length => self.edge.2 = count + 1,
            // The same data in smaller packets: the sender has lowered its packet size.
            (_, length, count)
                if ip_length < length
                    && count >= RETRANSMISSIONS_OF_A_BLACK_HOLE
                    && length > self.largest_acknowledged =>
            {
                self.lost_above = Some(self.lost_above.map_or(length - 1, |lost| lost.min(length - 1)));
                self.edge = (end, ip_length, 1);
            }
            _ => self.edge = (end, ip_length, 1),
        }
    }

    /// A sender that never lowers its size leaves a packet that was sent again and again. No path has a smaller MTU than
    /// `smallest_mtu`: packets up to it are lost for another reason.
    pub fn suspicion(&self, smallest_mtu: u32) -> Option<u32> {
        let (_, length, count) = self.edge;
        let stuck = count > RETRANSMISSIONS_OF_A_BLACK_HOLE && length > self.largest_acknowledged;
        self.lost_above
            .or(stuck.then(|| length.saturating_sub(1)))
            .filter(|above| self.largest_acknowledged > 0 && *above >= smallest_mtu)
    }
}
