//! The smoothed RTT of idle paths at both ends, and the path of the first data after an idle time.

use super::*;
use noq_proto::PathId;
use pathbench_link::BaseDelay;
use pathbench_record::sample::PathFigures;

const RTTS: [Duration; 3] = [Duration::from_micros(100), ms(10), ms(100)];
const RATES_MBPS: [u64; 3] = [5, 50, 1000];
/// IP packet of a probe: a small packet that is answered at once.
const PROBE_BYTES: u64 = 68;
const TOLERANCE_MS: f64 = 1.0;

fn link_with_rtt(megabits: u64, rtt: Duration) -> LinkModel {
    LinkModel { delay: BaseDelay::Constant(rtt / 2), ..link(megabits, 0) }
}

fn probe_rtt_ms(megabits: u64, rtt: Duration) -> f64 {
    rtt.as_secs_f64() * 1e3 + (2 * PROBE_BYTES * 8) as f64 / (megabits * 1000) as f64
}

/// The smoothed RTTs of all paths at the client and at the server.
fn smoothed_ms(world: &mut World) -> [Vec<f64>; 2] {
    let now = world.now;
    let srtt = |paths: Vec<PathFigures>| paths.iter().map(|path| path.srtt_ms).collect();
    [srtt(world.client.figures(now)), srtt(world.server.figures(now))]
}

/// Lets 50 ms pass.
type Step = fn(&mut World);

fn idle(world: &mut World) {
    world.run_for(ms(50));
}

/// A small message in each direction, each later than the acknowledgement of the one before.
fn sparse(world: &mut World) {
    for host in [&mut world.client, &mut world.server] {
        host.load = Load::Paced(40);
    }
    world.run_for(ms(1));
    for host in [&mut world.client, &mut world.server] {
        host.load = Load::Silent;
    }
    world.run_for(ms(49));
}

/// The largest difference of a smoothed RTT from the probes' in three seconds, at the client and at the server.
fn largest_error_ms(world: &mut World, step: Step, probe_ms: f64) -> [f64; 2] {
    let mut largest = [0.0_f64; 2];
    for _ in 0..60 {
        step(world);
        for (largest, paths) in largest.iter_mut().zip(smoothed_ms(world)) {
            let errors = paths.iter().map(|srtt| (srtt - probe_ms).abs());
            *largest = errors.fold(*largest, f64::max);
        }
    }
    largest
}

/// Over links of all RTTs and rates; `prepare` makes the connection.
fn assert_smoothed_as_probes(prepare: impl Fn(LinkModel) -> World, step: Step) {
    let mut table = Vec::new();
    let mut worst = 0.0_f64;
    for rtt in RTTS {
        for megabits in RATES_MBPS {
            let mut world = prepare(link_with_rtt(megabits, rtt));
            for _ in 0..60 {
                step(&mut world);
            }
            let probe_ms = probe_rtt_ms(megabits, rtt);
            let [client, server] = largest_error_ms(&mut world, step, probe_ms);
            worst = worst.max(client).max(server);
            table.push(format!(
                "{megabits:4} Mbit/s, probes {probe_ms:7.2} ms: client {client:6.2} ms, server {server:6.2} ms"
            ));
            assert!(world.client.ended().is_none());
        }
    }
    assert!(worst <= TOLERANCE_MS, "differences from the probes' RTT: {table:#?}");
}

/// Regression: samples contained the acknowledgement delay of up to 25 ms, and the library subtracts none when its
/// minimum RTT is that of larger packets.
#[test]
fn the_smoothed_rtt_of_idle_paths_is_the_probes_rtt_at_both_ends() {
    let two = |link: LinkModel| World::established(&Setup::new(&[link.clone(), link], Scheduler::LowestRtt));
    assert_smoothed_as_probes(two, idle);
}

#[test]
fn the_smoothed_rtt_of_sparse_traffic_is_the_probes_rtt_at_both_ends() {
    for multipath in [false, true] {
        let one = |link: LinkModel| {
            let setup = Setup { multipath, ..Setup::new(&[link], Scheduler::LowestRtt) };
            let mut world = World::established(&setup);
            world.client.wanted_streams = 1;
            world
        };
        assert_smoothed_as_probes(one, sparse);
    }
}

/// The library's own smoothed RTT, with PINGs only. It falls for a while after each packet number that the library skips,
/// because a gap is acknowledged at once.
#[test]
fn the_library_alone_keeps_the_acknowledgement_delay_in_its_smoothed_rtt() {
    let mut setup = Setup::new(&[link_with_rtt(50, RTTS[0])], Scheduler::LowestRtt);
    setup.library_only = [true; 2];
    let mut world = World::established(&setup);
    let mut largest = Duration::ZERO;
    for _ in 0..60 {
        world.client.connection().ping_path(PathId::ZERO).unwrap();
        world.run_for(ms(50));
        largest = largest.max(world.client.connection().rtt(PathId::ZERO).unwrap());
    }
    assert!(largest > ms(15), "{largest:?} on a path of {:?}: no workaround is needed any more", RTTS[0]);
}

/// A receiver of bulk data sends mainly acknowledgements; its few other packets measure the RTT.
#[test]
fn a_receiver_of_bulk_data_measures_the_path_and_not_the_acknowledgement_delay() {
    let rtt = ms(10);
    let setup = Setup { multipath: false, ..Setup::new(&[link_with_rtt(50, rtt)], Scheduler::LowestRtt) };
    let mut world = World::established(&setup);
    world.start_download();
    world.run_for(ms(1000));
    for _ in 0..20 {
        world.run_for(ms(50));
        let [client, server] = smoothed_ms(&mut world);
        // Both measure the queue of at most 50 ms.
        let limit = rtt.as_secs_f64() * 1e3 + 52.0;
        assert!(client[0] <= limit && server[0] <= limit, "{client:.1?} and {server:.1?} ms");
    }
}

/// Sends a message of 8 kB, and returns the stream bytes on each path.
fn send_message(world: &mut World, download: bool) -> Vec<u64> {
    let mut carried = |load: Load| {
        let now = world.now;
        let host = if download { &mut world.server } else { &mut world.client };
        host.load = load;
        let bytes: Vec<u64> = host.figures(now).iter().map(|path| path.bytes_sent).collect();
        world.run_for(ms(10));
        bytes
    };
    let before = carried(Load::Paced(8000));
    let after = carried(Load::Silent);
    after.iter().zip(before).map(|(after, before)| after - before).collect()
}

#[test]
fn after_an_idle_time_nothing_is_sent_on_the_slower_path() {
    let mut wrong = Vec::new();
    for (fast, slow) in [(RTTS[0], ms(5)), (ms(10), ms(20))] {
        for megabits in RATES_MBPS {
            for (fast_link, download) in [(0, false), (0, true), (1, false), (1, true)] {
                let mut links = [link_with_rtt(megabits, fast), link_with_rtt(megabits, slow)];
                links.rotate_right(fast_link);
                let mut world = World::established(&Setup::new(&links, Scheduler::LowestRtt));
                world.client.wanted_streams = 1;
                for idle_ms in [1000, 1000, 3000] {
                    world.run_for(ms(idle_ms));
                    let rtts = smoothed_ms(&mut world);
                    let sent = send_message(&mut world, download);
                    assert!(sent.iter().sum::<u64>() >= 8000, "{sent:?}");
                    if sent[1 - fast_link] > 0 {
                        wrong.push(format!(
                            "{megabits} Mbit/s, link {fast_link} of {fast:?} against {slow:?}, download {download}, \
                             after {idle_ms} ms: {sent:?} bytes, RTTs {rtts:.2?} ms"
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "data on the slower path: {wrong:#?}");
}
