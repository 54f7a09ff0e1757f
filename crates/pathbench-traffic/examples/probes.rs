//! Probes a server by some interfaces, by hand: a line a probe, until standard input closes.
//!
//! ```text
//! probes SERVER:PORT INTERFACE…
//! ```

#![allow(clippy::disallowed_methods, reason = "the outermost shell is where the clock is read")]
#![allow(clippy::unwrap_used, reason = "a tool by hand may panic on bad arguments")]

use pathbench_record::time::{Clock, Timestamp};
use pathbench_traffic::probe::{ProbePath, ProbePlan, run_probes};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

struct Monotonic;

impl Clock for Monotonic {
    fn now(&self) -> Timestamp {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Timestamp::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    fn sleep_until(&self, deadline: Timestamp) {
        std::thread::sleep(deadline.since(self.now()));
    }
}

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
    let clock: Arc<dyn Clock> = Arc::new(Monotonic);
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
