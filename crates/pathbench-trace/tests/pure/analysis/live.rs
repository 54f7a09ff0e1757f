//! Live captures give the same result as files with the same packets.

use crate::wire::{CLIENT, Capture, SECOND, Subflow, document};
use pathbench_record::trace::TraceDocument;
use pathbench_trace::analysis::{AnalysisParameters, LiveAnalysis};
use pathbench_trace::capture::{CaptureReader, InterfaceDescription};
use pathbench_trace::packet::link;
use pathbench_trace::quic::Quic;

/// Most connections with details.
const MOST: usize = 10;

struct Packet {
    time_ns: u64,
    bytes: Vec<u8>,
    original_length: u32,
}

fn packets(capture: &Capture) -> Vec<Packet> {
    let mut reader = CaptureReader::open(std::io::Cursor::new(capture.clone().into_bytes())).unwrap();
    let mut packets = Vec::new();
    while let Some(batch) = reader.batch().unwrap() {
        packets.extend(batch.iter().map(|frame| Packet {
            time_ns: frame.time_ns,
            bytes: frame.bytes.to_vec(),
            original_length: frame.original_length,
        }));
    }
    packets
}

fn live(names: &[&str]) -> LiveAnalysis {
    let interface = |name: &&str| {
        let name = (*name).to_owned();
        (
            name.clone(),
            InterfaceDescription {
                link_type: link::RAW,
                name: Some(name),
                ..InterfaceDescription::default()
            },
        )
    };
    let parameters = AnalysisParameters { most: MOST, seed: 1 };
    LiveAnalysis::new(names.iter().map(interface).collect(), &parameters, Quic::new(None))
}

/// A connection whose two subflows alternate every millisecond, each in a capture.
fn alternating(rounds: u32) -> [Capture; 2] {
    let (mut wlan, mut lte) = (Capture::new(), Capture::new());
    let (first, second) = (Subflow::new(CLIENT, [0, 0]), Subflow::new(SECOND, [0, 0]));
    first.handshake(&mut wlan);
    lte.now_ms = wlan.now_ms + 1.0;
    second.join(&mut lte);
    wlan.now_ms = lte.now_ms + 1.0;
    lte.now_ms = wlan.now_ms + 0.5;
    for round in 0..rounds {
        let (sequence, data) = (1 + round * 100, 1 + u64::from(round) * 200);
        wlan.segment(&first.upload(sequence, data, 100)).wait(1.0);
        lte.segment(&second.upload(sequence, data + 100, 100)).wait(1.0);
    }
    [wlan, lte]
}

fn of_files(captures: &[Capture]) -> TraceDocument {
    let bytes: Vec<Vec<u8>> = captures.iter().map(|capture| capture.clone().into_bytes()).collect();
    document(&bytes.iter().map(Vec::as_slice).collect::<Vec<_>>(), MOST)
}

#[test]
fn one_interface_gives_the_result_of_its_file() {
    let [capture, _] = alternating(1000);
    let mut live = live(&["wlan0"]);
    for packet in packets(&capture) {
        live.push(0, packet.time_ns, &packet.bytes, packet.original_length);
    }
    let (found, expected) = (live.finish(), of_files(&[capture]));
    assert_eq!((&found.connections, &found.totals), (&expected.connections, &expected.totals));
    let ([found], [expected]) = (found.captures.as_slice(), expected.captures.as_slice()) else { panic!() };
    assert_eq!((found.file.as_str(), found.format.as_str()), ("wlan0", "live"));
    assert_eq!((found.packets, found.wire_bytes), (expected.packets, expected.wire_bytes));
    assert_eq!(
        (found.interfaces[0].name.as_deref(), found.interfaces[0].packets),
        (Some("wlan0"), found.packets)
    );
    assert_eq!((found.dropped_packets, &found.damage), (None, &None));
}

/// The kernel passes the packets of 50 ms on at once, first those of one interface, then those of the other.
#[test]
fn packets_of_several_interfaces_are_merged_by_time() {
    const WINDOW_NS: u64 = 50_000_000;
    let captures = alternating(2000);
    let all = captures.each_ref().map(packets);
    let mut live = live(&["wlan0", "wwan0"]);
    let (mut next, mut until_ns) = ([0, 0], all[0][0].time_ns + WINDOW_NS);
    while next != [all[0].len(), all[1].len()] {
        for interface in [1, 0] {
            while let Some(packet) = all[interface].get(next[interface]).filter(|one| one.time_ns < until_ns)
            {
                live.push(interface, packet.time_ns, &packet.bytes, packet.original_length);
                next[interface] += 1;
            }
        }
        until_ns += WINDOW_NS;
    }
    let (found, expected) = (live.finish(), of_files(&captures));
    assert_eq!((&found.connections, &found.totals), (&expected.connections, &expected.totals));
    assert_eq!(found.connections.len(), 1);
    assert_eq!(found.connections[0].upload.data_bytes, 2000 * 200);
    let packets = found.captures.iter().map(|capture| capture.packets as usize).collect::<Vec<_>>();
    assert_eq!(packets, [all[0].len(), all[1].len()]);
}

#[test]
fn losses_of_the_capture_are_in_the_result() {
    let mut live = live(&["wlan0", "wwan0"]);
    live.add_dropped(1, 3);
    live.add_dropped(1, 4);
    live.set_damage(0, "the interface wlan0 was removed during the capture".to_owned());
    let document = live.finish();
    let dropped: Vec<_> = document.captures.iter().map(|capture| capture.dropped_packets).collect();
    assert_eq!(dropped, [None, Some(7)]);
    assert!(document.captures[0].damage.as_ref().is_some_and(|damage| damage.contains("wlan0")));
}
