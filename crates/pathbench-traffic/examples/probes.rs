//! Probes a server by some interfaces, by hand: a line a probe, until standard input closes.
//!
//! ```text
//! probes SERVER:PORT INTERFACE…
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints what it measures")]
#![allow(clippy::unwrap_used, reason = "a tool by hand may panic on bad arguments")]

use pathbench_kerneltest::MonotonicClock;
use pathbench_record::time::Clock;
use pathbench_traffic::probe::{ProbePath, ProbePlan, run_probes};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path =
        |interface: &String| ProbePath { name: interface.clone(), interface: interface.clone(), local: None };
    let plan = ProbePlan {
        server: arguments[0].parse().unwrap(),
        token: std::env::var("TOKEN").ok(),
        paths: arguments[1..].iter().map(path).collect(),
        interval: Duration::from_millis(100),
    };
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let start = clock.now();
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    std::thread::spawn(move || {
        while std::io::stdin().read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        stopping.store(true, Ordering::Release);
    });
    let counts = run_probes(&plan, &clock, &stop, &|sample| {
        let (name, at) = (&plan.paths[sample.path].name, sample.sent_at.ms_from(start));
        println!("{at:9.1} ms {name} {}: {:?}", sample.sequence, sample.outcome);
    });
    println!("{counts:?}");
}
