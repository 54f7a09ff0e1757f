//! Limits of the size of GSO packets that hosts send on a link.

use crate::scenario::LinkEngine;
use pathbench_link::LinkModel;
use std::time::Duration;

/// Largest GSO packet (the kernel's default).
const GSO_MAX_BYTES: u64 = 65_536;
/// Maximum number of segments of a GSO packet (the kernel's default, `GSO_MAX_SEGS`).
const GSO_MAX_SEGMENTS: u32 = 65_535;
/// Maximum transmission time of a GSO packet on the link.
const LONGEST: Duration = Duration::from_micros(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cap {
    pub(super) bytes: u32,
    pub(super) segments: u32,
}

impl Cap {
    /// The cap for one direction of a link. `narrows`: the path may have a smaller MTU behind its first hop, or the
    /// link has an MTU above Ethernet's. `None` if a GSO packet of 64 KiB passes quickly enough: the kernel segments
    /// GSO packets of MPTCP and UDP above a cap in software, which costs half of the goodput at 10 Gbit/s.
    pub(super) fn from_model(model: &LinkModel, engine: LinkEngine, narrows: bool) -> Option<Self> {
        // netem drops a GSO packet as a whole: wire packets are lost independently of each other only without GSO.
        if engine == LinkEngine::Kernel && model.loses() {
            return Some(Self::of_segments(1));
        }
        let lump_bytes = (u128::from(model.mean_rate_bps()?) * LONGEST.as_micros() / 8_000_000) as u64;
        let segments = (lump_bytes / u64::from(model.mtu_bytes)).max(1) as u32;
        let cap =
            if narrows { Self::of_bytes(segments, model.mtu_bytes) } else { Self::of_segments(segments) };
        (lump_bytes < GSO_MAX_BYTES).then_some(cap)
    }

    const fn of_segments(segments: u32) -> Self {
        Self { bytes: GSO_MAX_BYTES as u32, segments }
    }

    /// The cap if segments may be much smaller than the link's MTU, because the MTU behind the link is smaller, or
    /// because probes search for jumbo frames: the size of `segments` full segments, at least two. With a cap of one
    /// segment, MPTCP would never probe for a larger MTU: each segment has its own mapping, a probe cannot combine two
    /// mappings (`tcp_can_coalesce_send_queue_head`, `net/ipv4/tcp_output.c`), and the subflow would keep its base MSS.
    fn of_bytes(segments: u32, mtu_bytes: u32) -> Self {
        let bytes = (segments.max(2).saturating_mul(mtu_bytes)).min(GSO_MAX_BYTES as u32);
        Self { bytes, segments: GSO_MAX_SEGMENTS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{self, Overrides, ScenarioSource};

    #[test]
    fn a_path_that_may_narrow_leaves_room_for_probes() {
        assert_eq!(Cap::of_bytes(1, 9_000), Cap { bytes: 18_000, segments: 65_535 });
        assert_eq!(Cap::of_bytes(25, 1_500).bytes, 37_500);
        assert_eq!(Cap::of_bytes(40, 9_000).bytes, 65_536);
        assert_eq!(Cap::of_segments(3), Cap { bytes: 65_536, segments: 3 });
    }

    #[test]
    fn packets_are_lost_one_by_one() {
        let caps = |path: &str| {
            let text = format!("name = \"t\"\n[[path]]\nname = \"eth\"\n{path}\n");
            let plan =
                scenario::plan(&ScenarioSource::from_text("t.toml", &text), &Overrides::default()).unwrap();
            let model = &plan.variants[0].topology.links[0].forward;
            [LinkEngine::Kernel, LinkEngine::Emulated]
                .map(|engine| Cap::from_model(model, engine, false).map(|cap| cap.segments))
        };
        assert_eq!(caps("rate = \"1gbit\""), [Some(25), Some(25)]);
        assert_eq!(caps("rate = \"10gbit\""), [None, None]);
        assert_eq!(caps("rate = \"1gbit\"\nloss = \"1%\""), [Some(1), Some(25)]);
        assert_eq!(caps("loss = \"1%\""), [Some(1), None]);
    }
}
