//! Probes a server over several interfaces: one line per probe, until standard input closes.
//!
//! ```text
//! probes SERVER:PORT INTERFACE…
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints its measurements")]
#![allow(clippy::unwrap_used, reason = "a developer's tool may panic on bad arguments")]

use pathbench_record::time::Clock;
use pathbench_testkit::MonotonicClock;
use pathbench_traffic::datagram::UdpPath;
use pathbench_traffic::probe::{ProbePlan, run_probes};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let interfaces = &arguments[1..];
    let path = |interface: &String| UdpPath { interface: Some(interface.clone()), local: None };
    let plan = ProbePlan {
        server: arguments[0].parse().unwrap(),
        token: std::env::var("TOKEN").ok(),
        paths: interfaces.iter().map(path).collect(),
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
        let (name, at) = (&interfaces[sample.path], sample.sent_at.ms_from(start));
        println!("{at:9.1} ms {name} {}: {:?}", sample.sequence, sample.outcome);
    });
    println!("{counts:?}");
}
