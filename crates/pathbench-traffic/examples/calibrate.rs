//! Calibrates a link by hand.
//!
//! ```text
//! calibrate respond ADDRESS:PORT                                      until standard input closes
//! calibrate LOCAL REMOTE:PORT MTU [FORWARD_BPS [REVERSE_BPS [TIMES]]]
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints what it measures")]
#![allow(clippy::unwrap_used, reason = "a tool by hand may panic on bad arguments")]

use pathbench_kerneltest::MonotonicClock;
use pathbench_record::time::Clock;
use pathbench_traffic::calibration::{CalibrationPlan, CalibrationResponder, calibrate};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    if arguments[0] == "respond" {
        let responder = CalibrationResponder::start(&[arguments[1].parse().unwrap()], &clock).unwrap();
        let _ = std::io::stdin().read(&mut [0; 1]);
        responder.stop();
        return;
    }
    let local: IpAddr = arguments[0].parse().unwrap();
    let mut plan = CalibrationPlan::new(
        SocketAddr::new(local, 0),
        arguments[1].parse().unwrap(),
        arguments[2].parse().unwrap(),
    );
    plan.forward_bps = arguments.get(3).map(|bps| bps.parse().unwrap());
    plan.reverse_bps = arguments.get(4).map(|bps| bps.parse().unwrap());
    for _ in 0..arguments.get(5).map_or(1, |times| times.parse().unwrap()) {
        let start = clock.now();
        let result = calibrate(&plan, clock.as_ref());
        let took = clock.now().since(start);
        match result {
            Ok(link) => {
                let ratio = |measured: Option<u64>, asked: Option<u64>| {
                    measured.zip(asked).map(|(measured, asked)| measured as f64 / asked as f64)
                };
                let ratios =
                    (ratio(link.forward_bps, plan.forward_bps), ratio(link.reverse_bps, plan.reverse_bps));
                println!("{ratios:.4?} in {took:.0?}: {link:?}");
            }
            Err(error) => println!("{error}"),
        }
    }
}
