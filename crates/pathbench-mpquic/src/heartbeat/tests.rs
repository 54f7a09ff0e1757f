use super::*;
use proptest::prelude::*;

const A: PathId = PathId::ZERO;

fn b() -> PathId {
    PathId::from(1_u32)
}

struct Pair {
    now: Timestamp,
    heartbeats: Heartbeats,
    received: [u64; 2],
    sent: [u64; 2],
    rttvar: Duration,
    beats: Vec<(u64, Beat)>,
}

impl Pair {
    fn new() -> Self {
        let now = Timestamp::from_nanos(5_000_000_000);
        let mut heartbeats = Heartbeats::new(HeartbeatOptions::default());
        heartbeats.add(A, now);
        heartbeats.add(b(), now);
        Self { now, heartbeats, received: [0; 2], sent: [0; 2], rttvar: Duration::ZERO, beats: Vec::new() }
    }

    /// Lets `ms` pass, in which the paths that are `alive` receive something every 50 ms.
    fn pass(&mut self, ms: u64, alive: [bool; 2]) {
        for _ in 0..ms {
            self.now = self.now + Duration::from_millis(1);
            let elapsed = self.elapsed_ms();
            if elapsed.is_multiple_of(50) {
                for (received, alive) in self.received.iter_mut().zip(alive) {
                    *received += u64::from(alive);
                }
            }
            self.observe();
            let beats = self.heartbeats.tick(self.now);
            self.beats.extend(beats.into_iter().map(|beat| (elapsed, beat)));
        }
    }

    fn observe(&mut self) {
        for (index, path) in [A, b()].into_iter().enumerate() {
            self.heartbeats.observe(path, self.received[index], self.sent[index], self.rttvar, self.now);
        }
    }

    fn elapsed_ms(&self) -> u64 {
        self.now.since(Timestamp::from_nanos(5_000_000_000)).as_millis() as u64
    }

    fn verdicts(&self) -> Vec<(u64, Beat)> {
        self.beats.iter().copied().filter(|(_, beat)| !matches!(beat, Beat::Ping(_))).collect()
    }
}

#[test]
fn a_silent_path_is_suspended_given_up_and_taken_back() {
    let mut pair = Pair::new();
    pair.pass(1000, [true, true]);
    assert_eq!(pair.verdicts(), []);
    pair.pass(1000, [false, true]);
    let verdicts = pair.verdicts();
    assert!(matches!(verdicts[0], (1300..1400, Beat::Silent(A))), "{verdicts:?}");
    assert!(matches!(verdicts[1], (1450..1550, Beat::Dead(A))), "{verdicts:?}");
    assert_eq!(verdicts.len(), 2, "{verdicts:?}");
    pair.pass(200, [true, true]);
    let verdicts = pair.verdicts();
    assert!(matches!(verdicts[2..], [(2000..2100, Beat::Heard(A))]), "{verdicts:?}");
}

#[test]
fn silence_on_all_paths_condemns_none() {
    let mut pair = Pair::new();
    pair.pass(500, [true, true]);
    pair.pass(20_000, [false, false]);
    assert_eq!(pair.verdicts(), []);
}

#[test]
fn one_path_alone_is_not_judged() {
    let mut pair = Pair::new();
    pair.heartbeats.remove(b());
    pair.pass(20_000, [false, false]);
    assert_eq!(pair.verdicts(), []);
}

#[test]
fn a_silent_path_is_not_taken_back_because_the_others_fall_silent() {
    let mut pair = Pair::new();
    pair.pass(400, [false, true]);
    assert_eq!(pair.verdicts().len(), 1);
    pair.heartbeats.remove(b());
    pair.pass(1000, [false, false]);
    assert_eq!(pair.verdicts().len(), 1, "{:?}", pair.verdicts());
}

#[test]
fn where_the_rtt_varies_more_silence_is_waited_for() {
    let mut pair = Pair::new();
    pair.rttvar = Duration::from_millis(100);
    pair.pass(1000, [true, true]);
    pair.pass(1000, [false, true]);
    // 2 × 60 + 4 × 100 ms.
    let verdicts = pair.verdicts();
    assert!(matches!(verdicts[0], (1520..1620, Beat::Silent(A))), "{verdicts:?}");
}

#[test]
fn time_in_which_this_end_did_not_run_is_nobodys_silence() {
    let mut pair = Pair::new();
    pair.pass(1000, [true, true]);
    // The process stands still; then one socket is read before the other.
    pair.now = pair.now + Duration::from_secs(3);
    pair.received[1] += 60;
    pair.observe();
    let beats = pair.heartbeats.tick(pair.now);
    assert!(beats.iter().all(|beat| matches!(beat, Beat::Ping(_))), "{beats:?}");
    pair.pass(1000, [true, true]);
    assert_eq!(pair.verdicts(), []);
}

#[test]
fn only_paths_on_which_nothing_else_is_sent_are_pinged() {
    let mut pair = Pair::new();
    for _ in 0..100 {
        pair.sent[1] += 1;
        pair.pass(10, [true, true]);
    }
    let pings = |of| pair.beats.iter().filter(|(_, beat)| *beat == Beat::Ping(of)).count();
    assert!((15..=17).contains(&pings(A)), "{} in a second", pings(A));
    assert_eq!(pings(b()), 0);
}

proptest! {
    /// A path on which something arrives at least every two intervals is never condemned, whenever this end looks.
    #[test]
    fn a_heard_path_is_never_condemned(steps in prop::collection::vec((1_u64..120, any::<bool>(), any::<bool>()), 1..300)) {
        let mut now = Timestamp::from_nanos(0);
        let mut heartbeats = Heartbeats::new(HeartbeatOptions::default());
        heartbeats.add(A, now);
        heartbeats.add(b(), now);
        let mut received = [0_u64; 2];
        let mut heard = [now; 2];
        for (step_ms, first, second) in steps {
            now = now + Duration::from_millis(step_ms);
            for (index, arrives) in [first, second].into_iter().enumerate() {
                if arrives || now.since(heard[index]) >= Duration::from_millis(120) {
                    received[index] += 1;
                    heard[index] = now;
                }
            }
            heartbeats.observe(A, received[0], 0, Duration::ZERO, now);
            heartbeats.observe(b(), received[1], 0, Duration::ZERO, now);
            for beat in heartbeats.tick(now) {
                prop_assert!(matches!(beat, Beat::Ping(_)), "{beat:?}");
            }
        }
    }
}

/// When PINGs were sent on the first path within 400 ms, if the library probes it this long after the last packet.
fn pings(probe_after_ms: Option<u64>) -> Vec<u64> {
    let mut pair = Pair::new();
    pair.heartbeats.expect_probe(A, probe_after_ms.map(Duration::from_millis));
    pair.pass(400, [true; 2]);
    let of_a = |(at, beat): &(u64, Beat)| (*beat == Beat::Ping(A)).then_some(*at);
    pair.beats.iter().filter_map(of_a).collect()
}

#[test]
fn a_probe_of_the_library_is_waited_for_where_it_comes_soon() {
    let usual = pings(None);
    assert_eq!(usual.first(), Some(&60));
    // Sooner than the next PING anyway, and too late to be waited for.
    assert_eq!(pings(Some(30)), usual);
    assert_eq!(pings(Some(250)), usual);
    assert_eq!(pings(Some(120)), [135, 270]);
}
