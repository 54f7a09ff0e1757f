//! How large packets may be that hosts hand over for segmentation on a link.

use crate::scenario::LinkModel;
use std::time::Duration;

/// Largest packet that is handed over for segmentation, by the kernel's default.
const GSO_MAX_BYTES: u64 = 65_536;
/// How long the largest packet handed over for segmentation may occupy the link.
const LUMP: Duration = Duration::from_micros(300);

/// Most segments of a packet on a link; `None` when a whole 64 KiB passes quickly enough. Then there
/// must be no cap at all: the kernel cuts up in software what MPTCP and UDP hand over beyond it, which costs
/// half of the goodput at 10 Gbit/s.
pub(super) fn cap(model: &LinkModel, mtu_bytes: u32) -> Option<u32> {
    let lump_bytes = (u128::from(model.mean_rate_bps()?) * LUMP.as_micros() / 8_000_000) as u64;
    (lump_bytes < GSO_MAX_BYTES).then(|| (lump_bytes / u64::from(mtu_bytes)).max(1) as u32)
}

/// As [`cap`], for a link of the kernel's engine. netem loses what is handed over for segmentation as a whole: for each
/// packet to be lost independently of the others, none may be.
pub(super) fn kernel_cap(model: &LinkModel, mtu_bytes: u32) -> Option<u32> {
    if model.loses() { Some(1) } else { cap(model, mtu_bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{self, Overrides, Source};

    #[test]
    fn packets_are_lost_one_by_one() {
        let caps = |path: &str| {
            let text = format!("name = \"t\"\n[[path]]\nname = \"eth\"\n{path}\n");
            let plan = scenario::plan(&Source::from_text("t.toml", &text), &Overrides::default()).unwrap();
            let model = &plan.variants[0].topology.links[0].forward;
            (kernel_cap(model, 1500), cap(model, 1500))
        };
        assert_eq!(caps("rate = \"1gbit\""), (Some(25), Some(25)));
        assert_eq!(caps("rate = \"10gbit\""), (None, None));
        assert_eq!(caps("rate = \"1gbit\"\nloss = \"1%\""), (Some(1), Some(25)));
        assert_eq!(caps("loss = \"1%\""), (Some(1), None));
    }
}
