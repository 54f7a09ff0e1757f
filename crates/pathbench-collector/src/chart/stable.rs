//! Section III of the `MultipathTester` paper (De Coninck and Bonaventure, 2019): IPv4 against IPv6, and the two
//! multipath transports in stable networks.

use super::document::{Chart, Meta};
use super::scene::Scene;
use super::shape::{Curve, Unit, counts, distributions};
use crate::columns::BucketHistogram;
use crate::facts::{Reach, measure};
use pathbench_api::summary::Mode;
use pathbench_record::network::AddressFamily;
use pathbench_record::transport::Transport;
use pathbench_report::plot::Hue;

/// Success of QUIC over each IP version, and the failures over IPv6 where IPv4 worked.
pub(super) fn reachability(scene: &Scene, meta: Meta) -> Chart {
    let (mut dual, mut ipv4, mut ipv6) = (0, 0, 0);
    let mut failures = [0_u64; 4];
    scene.selection.for_each(|row| {
        let [four, six] = AddressFamily::ALL.map(|family| scene.columns.reach(row, Transport::Quic, family));
        if four == Reach::Untested || six == Reach::Untested {
            return;
        }
        dual += 1;
        ipv4 += u64::from(four == Reach::Reachable);
        ipv6 += u64::from(six == Reach::Reachable);
        if four == Reach::Reachable {
            match six {
                Reach::Untested | Reach::Reachable => {}
                Reach::Timeout => failures[0] += 1,
                Reach::NoRoute => failures[1] += 1,
                Reach::Refused => failures[2] += 1,
                Reach::Other => failures[3] += 1,
            }
        }
    });
    let row = |name: &str, detail: &str, count| (name.to_owned(), detail.to_owned(), count);
    let only = "IPv4 works, IPv6 not";
    let rows = [
        row("IPv4 reachable", "", ipv4),
        row("IPv6 reachable", "", ipv6),
        row("Time-out over IPv6", only, failures[0]),
        row("No route over IPv6", only, failures[1]),
        row("Refused over IPv6", only, failures[2]),
        row("Other error over IPv6", only, failures[3]),
    ];
    let rows = if dual > 0 { &rows[..] } else { &[] };
    let words = "As in section III of the MultipathTester paper: results that tried QUIC over both IP versions; one port \
                 that answers is enough.";
    // The rows overlap: their sum is no number of results.
    counts(meta.caption(words).x("results").counting("results"), "Outcome", (dual, dual), rows)
}

pub(super) fn completion(scene: &Scene, meta: Meta) -> Chart {
    let mut values = vec![BucketHistogram::default(); Transport::ALL.len()];
    for pair in scene.columns.family_pairs(&scene.selection) {
        if let Some(index) = Transport::ALL.iter().position(|one| *one == pair.transport) {
            values[index].add(pair.ipv4.ratio_to(pair.ipv6));
        }
    }
    let curves = Transport::ALL.into_iter().zip(values).filter(|(transport, _)| scene.shows(*transport));
    let curves =
        curves.map(|(transport, values)| Curve::new(transport.name(), Hue::Transport(transport), values));
    let meta = meta
        .caption(
            "Figure 4 of the MultipathTester paper: flow completion time of the same file over IPv4 ÷ over IPv6.",
        )
        .caption("Choose a server to compare continents.")
        .x("ratio (logarithmic)")
        .corners("", "right of 1: IPv6 is faster");
    distributions(meta, Unit::Ratio, curves.collect(), Some(1.0))
}

/// Duration, goodput and maximum delay of Multipath TCP ÷ Multipath QUIC in the same result.
pub(super) fn ratios(scene: &Scene, meta: Meta) -> Chart {
    let of = |patterns: &[(&str, &str)], name: &str, number: usize| {
        let mut all = BucketHistogram::default();
        for measure in patterns.iter().filter_map(|(pattern, figure)| measure(pattern, figure)) {
            let [mptcp, mpquic] =
                [Transport::Mptcp, Transport::Mpquic].map(|one| scene.columns.figure(measure, one));
            scene.selection.for_each(|row| {
                if scene.columns.mode(row) != Mode::Mobile && mptcp[row].is_present() {
                    all.add(mptcp[row].ratio_to(mpquic[row]));
                }
            });
        }
        Curve::new(name, Hue::Number(number), all)
    };
    let goodput = ["throughput", "throughput-upload", "throughput-download"].map(|one| (one, "goodput_mbps"));
    let curves = vec![
        of(&[("bulk", "fct_ms")], "flow completion time", 0),
        of(&goodput, "goodput", 5),
        of(&[("interactive", "delay_max_ms")], "maximum delay", 2).dashed(),
    ];
    let words =
        "As in section III of the MultipathTester paper: figures of the same result, without mobile runs.";
    let meta = meta.caption(words).x("mptcp ÷ mpquic (logarithmic)");
    distributions(meta, Unit::Ratio, curves, Some(1.0))
}
