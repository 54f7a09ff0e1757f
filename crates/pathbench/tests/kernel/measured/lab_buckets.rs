//! Links with token buckets, policers and fair queues are measured as configured before the run, and carry no more than
//! they may.

use crate::support::Workplace;
use crate::support::measured::{Measured, goodput, measure_in_parallel};
use pathbench_record::document::{RunLink, RunRecord};

/// Attempts at a run without a stall of the machine.
const ATTEMPTS: u32 = 4;

/// The paths of two labs, of 8 Mbit/s each: their names, and the text of the scenario.
const PAIRS: [([&str; 2], &str); 2] = [
    (
        ["policed", "bucket"],
        "[[path]]\nname = \"policed\"\nrate = \"60mbit\"\ndelay = \"2ms\"\npolicer = { rate = \"8mbit\", burst = \"64kB\" }\n\
         [[path]]\nname = \"bucket\"\nrate = \"8mbit\"\ndelay = \"2ms\"\nburst = \"100kB\"\n",
    ),
    (
        ["fair", "shaper"],
        "[[path]]\nname = \"fair\"\nrate = \"8mbit\"\ndelay = \"2ms\"\nqueue_discipline = \"fq_codel\"\n\
         [[path]]\nname = \"shaper\"\nrate = \"8mbit\"\nburst = \"100kB\"\n",
    ),
];

/// TCP over each path alone.
fn measure((names, paths): &([&str; 2], &str)) -> Measured {
    let labels = names.map(|path| format!("\"tcp@{path}\"")).join(", ");
    let text = format!(
        "{paths}[run]\ntransports = [{labels}]\npattern = \"throughput\"\nduration = \"3s\"\nlateness_tolerance = \"10s\"\n"
    );
    let measured = || Workplace::new().lab_run("buckets", &text, &[]);
    let is_valid = |measured: &Measured| measured.document.runs.iter().all(|run| run.valid);
    (1..ATTEMPTS).map(|_| measured()).find(is_valid).unwrap_or_else(measured)
}

fn link<'a>(run: &'a RunRecord, name: &str) -> &'a RunLink {
    run.links.iter().find(|link| link.name == name).unwrap_or_else(|| panic!("no link {name}: {run:#?}"))
}

#[test]
fn links_with_buckets_policers_and_fair_queues_are_measured_at_their_rate() {
    let results = measure_in_parallel(&PAIRS, measure);
    for ((names, _), measured) in PAIRS.iter().zip(&results) {
        for plan in &measured.document.links {
            assert_eq!(
                plan.engine,
                if plan.name == "shaper" { "kernel" } else { "emulated" },
                "{}",
                plan.name
            );
        }
        for run in &measured.document.runs {
            assert!(
                run.valid,
                "{:?}",
                run.links.iter().flat_map(|link| &link.deviations).collect::<Vec<_>>()
            );
            for name in names {
                let measured = link(run, name).measured.as_ref().unwrap();
                for bps in [measured.forward_bps.unwrap(), measured.reverse_bps.unwrap()] {
                    assert!((7.2e6..8.8e6).contains(&(bps as f64)), "{name}: {measured:?}");
                }
            }
        }
        for name in names {
            let run = measured.run(&format!("tcp@{name}"));
            // Beside the rate, the bucket passes its burst once.
            let most = 8.0 + 100_000.0 * 8.0 / 1e6 / 3.0;
            assert!((0.5..most).contains(&goodput(run)), "{name}: {}", goodput(run));
            let emulation = link(run, name).emulation.as_ref();
            let causes = emulation.map(|emulation| &emulation.forward.dropped_packets);
            let is_policed = causes.is_some_and(|causes| causes.contains_key("policer"));
            assert_eq!(is_policed, *name == "policed", "{name}: {causes:?}");
        }
    }
}
