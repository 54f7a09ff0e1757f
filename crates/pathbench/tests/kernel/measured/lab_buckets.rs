//! Links with token buckets, policers and fair queues are measured as configured before the run, and carry no more than
//! they may.

use crate::support::Workplace;
use crate::support::measured::{Measured, goodput};
use pathbench_record::document::{RunLink, RunRecord};
use std::sync::LazyLock;

/// Attempts at a run without a stall of the machine.
const ATTEMPTS: u32 = 4;
const PATHS: [&str; 4] = ["policed", "fair", "bucket", "shaper"];

/// Four paths of 8 Mbit/s, each of another kind, and TCP over each alone.
static LINKS: LazyLock<Measured> = LazyLock::new(|| {
    let labels = PATHS.map(|path| format!("\"tcp@{path}\"")).join(", ");
    let text = format!(
        "[[path]]\nname = \"policed\"\nrate = \"60mbit\"\ndelay = \"2ms\"\npolicer = {{ rate = \"8mbit\", burst = \"64kB\" }}\n\
         [[path]]\nname = \"fair\"\nrate = \"8mbit\"\ndelay = \"2ms\"\nqueue_discipline = \"fq_codel\"\n\
         [[path]]\nname = \"bucket\"\nrate = \"8mbit\"\ndelay = \"2ms\"\nburst = \"100kB\"\n\
         [[path]]\nname = \"shaper\"\nrate = \"8mbit\"\nburst = \"100kB\"\n\
         [run]\ntransports = [{labels}]\npattern = \"throughput\"\nduration = \"3s\"\nlateness_tolerance = \"10s\"\n"
    );
    let measured = || Workplace::new().lab_run("buckets", &text, &[]);
    let is_valid = |measured: &Measured| measured.document.runs.iter().all(|run| run.valid);
    (1..ATTEMPTS).map(|_| measured()).find(is_valid).unwrap_or_else(measured)
});

fn link<'a>(run: &'a RunRecord, name: &str) -> &'a RunLink {
    run.links.iter().find(|link| link.name == name).unwrap_or_else(|| panic!("no link {name}: {run:#?}"))
}

#[test]
fn links_with_buckets_policers_and_fair_queues_are_measured_at_their_rate() {
    let document = &LINKS.document;
    for (plan, engine) in document.links.iter().zip(["emulated", "emulated", "emulated", "kernel"]) {
        assert_eq!(plan.engine, engine, "{}", plan.name);
    }
    for run in &document.runs {
        assert!(run.valid, "{:?}", run.links.iter().flat_map(|link| &link.deviations).collect::<Vec<_>>());
        for name in PATHS {
            let measured = link(run, name).measured.as_ref().unwrap();
            for bps in [measured.forward_bps.unwrap(), measured.reverse_bps.unwrap()] {
                assert!((7.2e6..8.8e6).contains(&(bps as f64)), "{name}: {measured:?}");
            }
        }
    }
    for name in PATHS {
        let run = LINKS.run(&format!("tcp@{name}"));
        // Beside the rate, the bucket passes its burst once.
        let most = 8.0 + 100_000.0 * 8.0 / 1e6 / 3.0;
        assert!((0.5..most).contains(&goodput(run)), "{name}: {}", goodput(run));
        let causes = |name: &str| {
            let emulation = link(run, name).emulation.as_ref();
            emulation.map(|emulation| emulation.forward.dropped_packets.clone()).unwrap_or_default()
        };
        let policed = causes(name).contains_key("policer");
        assert_eq!(policed, name == "policed", "{name}: {:?}", causes(name));
    }
}
