//! How large packets may be that hosts hand over for segmentation on a link.

use pathbench_link::LinkModel;
use std::time::Duration;

/// Largest packet that is handed over for segmentation, by the kernel's default.
const GSO_MAX_BYTES: u64 = 65_536;
/// Most segments of such a packet, by the kernel's default (`GSO_MAX_SEGS`).
const GSO_MAX_SEGMENTS: u32 = 65_535;
/// How long the largest packet handed over for segmentation may occupy the link.
const LUMP: Duration = Duration::from_micros(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::environment) struct Cap {
    pub(in crate::environment) bytes: u32,
    pub(in crate::environment) segments: u32,
}

impl Cap {
    pub(super) const fn of_segments(segments: u32) -> Self {
        Self { bytes: GSO_MAX_BYTES as u32, segments }
    }

    /// The cap where segments may be much smaller than the link takes, be it that the path narrows behind it, be it that
    /// jumbo frames are what probes search for: as many bytes as `segments` of full size, two at least. With a cap of one segment MPTCP would never probe for a larger MTU: what it hands
    /// over has a mapping of its own each time, a probe cannot be put together from two of them
    /// (`tcp_can_coalesce_send_queue_head`, `net/ipv4/tcp_output.c`), and so a subflow would stay at its base MSS.
    pub(super) fn of_bytes(segments: u32, mtu_bytes: u32) -> Self {
        let bytes = (segments.max(2).saturating_mul(mtu_bytes)).min(GSO_MAX_BYTES as u32);
        Self { bytes, segments: GSO_MAX_SEGMENTS }
    }
}

/// Most segments of a packet on a link; `None` when a whole 64 KiB passes quickly enough. Then there
/// must be no cap at all: the kernel cuts up in software what MPTCP and UDP hand over beyond it, which costs
/// half of the goodput at 10 Gbit/s.
pub(super) fn cap(model: &LinkModel) -> Option<u32> {
    let lump_bytes = (u128::from(model.mean_rate_bps()?) * LUMP.as_micros() / 8_000_000) as u64;
    (lump_bytes < GSO_MAX_BYTES).then(|| (lump_bytes / u64::from(model.mtu_bytes)).max(1) as u32)
}

/// As [`cap`], for a link of the kernel's engine. netem loses what is handed over for segmentation as a whole: for each
/// packet to be lost independently of the others, none may be.
pub(super) fn kernel_cap(model: &LinkModel) -> Option<u32> {
    if model.loses() { Some(1) } else { cap(model) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{self, Overrides, Source};

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
            let plan = scenario::plan(&Source::from_text("t.toml", &text), &Overrides::default()).unwrap();
            let model = &plan.variants[0].topology.links[0].forward;
            (kernel_cap(model), cap(model))
        };
        assert_eq!(caps("rate = \"1gbit\""), (Some(25), Some(25)));
        assert_eq!(caps("rate = \"10gbit\""), (None, None));
        assert_eq!(caps("rate = \"1gbit\"\nloss = \"1%\""), (Some(1), Some(25)));
        assert_eq!(caps("loss = \"1%\""), (Some(1), None));
    }
}
