//! The traffic of paths: a rate with some noise, silences, and the records of both ends.

use pathbench_record::delivery::DeliveryLine;
use pathbench_record::direction::Direction;
use pathbench_record::sample::{PathFigures, PathState, Sample, Side};
use std::net::{Ipv4Addr, SocketAddr};

const BIN_MS: f64 = 10.0;
const SAMPLE_BINS: usize = 10;

/// The traffic of one path over time: its rate and its silences.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    pub(crate) path: String,
    pub(crate) rate_mbps: f64,
    pub(crate) until_ms: f64,
    pub(crate) state: PathState,
    silences: Vec<(f64, f64)>,
    backoff_rto_ms: Option<f64>,
    noise: u64,
}

impl Course {
    pub(crate) fn new(path: &str, rate_mbps: f64, seed: u64) -> Self {
        Self {
            path: path.to_owned(),
            rate_mbps,
            until_ms: 10_000.0,
            state: PathState::Open,
            silences: Vec::new(),
            backoff_rto_ms: None,
            noise: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    pub(crate) fn silent(mut self, from_ms: f64, to_ms: f64) -> Self {
        self.silences.push((from_ms, to_ms));
        self
    }

    pub(crate) fn until(mut self, until_ms: f64) -> Self {
        self.until_ms = until_ms;
        self
    }

    pub(crate) fn in_back_off(mut self, rto_ms: f64) -> Self {
        self.backoff_rto_ms = Some(rto_ms);
        self
    }

    /// Closes the subflow from its first silence.
    pub(crate) fn closed(mut self) -> Self {
        self.state = PathState::Closed;
        self
    }

    fn is_silent(&self, t_ms: f64) -> bool {
        self.silences.iter().any(|(from, to)| (*from..*to).contains(&t_ms))
    }

    fn bytes(&mut self, t_ms: f64) -> u64 {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        if self.is_silent(t_ms) {
            return 0;
        }
        // Slow start over the first 60 ms, then ± 3 %.
        let ramp = (t_ms / 60.0).clamp(0.05, 1.0);
        let wobble = 1.0 + ((self.noise % 1000) as f64 / 1000.0 - 0.5) * 0.06;
        (self.rate_mbps * 1e6 / 8.0 * BIN_MS / 1000.0 * ramp * wobble) as u64
    }
}

/// The records of one direction of a run.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    pub(crate) deliveries: Vec<DeliveryLine>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) totals: Vec<(String, u64)>,
}

pub(crate) fn carry(run: &str, direction: Direction, courses: &[Course]) -> Carried {
    let mut courses = courses.to_vec();
    let mut carried = Carried::default();
    let mut sums = vec![0_u64; courses.len()];
    let until_ms = courses.iter().map(|course| course.until_ms).fold(0.0, f64::max);
    let bins = (until_ms / BIN_MS) as usize;
    for bin in 0..=bins {
        let t_ms = bin as f64 * BIN_MS;
        if bin % SAMPLE_BINS == 0 {
            for (index, course) in courses.iter().enumerate() {
                carried.samples.extend(samples(run, direction, course, index as u32 + 1, t_ms, sums[index]));
            }
        }
        if bin == bins {
            break;
        }
        let mut bytes = 0;
        for (course, sum) in courses.iter_mut().zip(&mut sums) {
            let brought = course.bytes(t_ms);
            *sum += brought;
            bytes += brought;
        }
        if bytes > 0 {
            carried.deliveries.push(DeliveryLine { run: run.to_owned(), direction, t_ms, bytes });
        }
    }
    carried.totals = courses.into_iter().map(|course| course.path).zip(sums).collect();
    carried
}

fn samples(
    run: &str,
    direction: Direction,
    course: &Course,
    subflow: u32,
    t_ms: f64,
    sum: u64,
) -> [Sample; 2] {
    let address = |host: u8, port: u16| SocketAddr::from((Ipv4Addr::new(10, 0, subflow as u8, host), port));
    [Side::Client, Side::Server].map(|side| {
        let sends = (side == Side::Client) == (direction == Direction::Upload);
        let (local, remote) = (address(1, 40_000), address(2, 7700));
        let stuck = course.backoff_rto_ms.filter(|_| course.is_silent(t_ms));
        let closed = course.state == PathState::Closed && course.is_silent(t_ms);
        let figures = PathFigures {
            subflow,
            state: if closed { PathState::Closed } else { PathState::Open },
            backup: Some(false),
            bytes_sent: if sends { sum } else { 40 },
            bytes_acked: if sends { sum } else { 41 },
            bytes_received: if sends { 40 } else { sum },
            srtt_ms: 18.0,
            rttvar_ms: 2.0,
            min_rtt_ms: Some(2.0),
            rto_ms: stuck.unwrap_or(220.0),
            backoff: if stuck.is_some() { 4 } else { 0 },
            cwnd_bytes: 2_000_000,
            in_flight_bytes: 1_000_000,
            mss_bytes: 1428,
            pmtu_bytes: 1500,
            ..if side == Side::Client {
                PathFigures::new(local, remote)
            } else {
                PathFigures::new(remote, local)
            }
        };
        let host = if side == Side::Client { "client" } else { "server" };
        Sample {
            run: run.to_owned(),
            t_ms,
            host: host.to_owned(),
            side,
            stream: 0,
            path: course.path.clone(),
            figures,
        }
    })
}
