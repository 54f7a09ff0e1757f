//! The captures of the repository beside tshark: connections, packets, bytes, retransmissions.

use crate::tshark::File;
use crate::wire::document;
use pathbench_record::trace::{SubflowDirection, TraceDocument, TracedSubflow};
use std::collections::{BTreeMap, BTreeSet};

pathbench_testkit::tests!(["tshark"] => the_captures_have_the_connections_packets_and_bytes_of_tshark;);

macro_rules! capture {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../recorded/", $name)).as_slice())
    };
}

const CAPTURES: [(&str, &[u8]); 12] = [
    capture!("checksums.pcap"),
    capture!("loss-client.pcap.gz"),
    capture!("loss-server.pcap.gz"),
    capture!("cut-client.pcap.gz"),
    capture!("cut-server.pcap.gz"),
    capture!("silent-client.pcap.gz"),
    capture!("silent-server.pcap.gz"),
    capture!("tcpdump/mptcp-aa-v1.pcap"),
    capture!("tcpdump/mptcp-dss-oobr.pcap"),
    capture!("tcpdump/mptcp-fclose.pcap"),
    capture!("tcpdump/mptcp-v0.pcap"),
    capture!("tcpdump/mptcp-v1.pcap"),
];

/// Packets, payload, packets that tshark calls retransmissions, and those that it calls out of order.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
struct Figures {
    packets: u64,
    payload_bytes: u64,
    retransmissions: u64,
    out_of_order: u64,
}

/// TCP streams, MPTCP streams, and figures of both directions of all TCP streams.
fn of_tshark(bytes: &[u8]) -> (usize, usize, Figures) {
    let fields =
        ["tcp.stream", "mptcp.stream", "tcp.len", "tcp.analysis.retransmission", "tcp.analysis.out_of_order"];
    let mut streams = (BTreeSet::new(), BTreeSet::new());
    let mut sum = Figures::default();
    for line in File::new(bytes).fields("tcp", &fields) {
        let values: Vec<&str> = line.split('\t').collect();
        let [stream, multipath, length, retransmission, out_of_order] = values[..] else { panic!("{line}") };
        streams.0.insert(stream.to_owned());
        if !multipath.is_empty() {
            streams.1.insert(multipath.to_owned());
        }
        sum.packets += 1;
        sum.payload_bytes += length.parse::<u64>().unwrap();
        sum.retransmissions += u64::from(!retransmission.is_empty());
        sum.out_of_order += u64::from(!out_of_order.is_empty());
    }
    (streams.0.len(), streams.1.len(), sum)
}

fn of_analysis(document: &TraceDocument) -> (usize, usize, Figures) {
    let tcp = || document.connections.iter().filter(|one| one.quic.is_none());
    let both = |subflow: &TracedSubflow| [subflow.upload.clone(), subflow.download.clone()];
    let directions: Vec<SubflowDirection> = tcp().flat_map(|one| &one.subflows).flat_map(both).collect();
    let sum = |figure: fn(&SubflowDirection) -> u64| directions.iter().map(figure).sum::<u64>();
    let figures = Figures {
        packets: sum(|one| one.packets),
        payload_bytes: sum(|one| one.payload_bytes),
        retransmissions: sum(|one| one.retransmitted_packets),
        out_of_order: 0,
    };
    let multipath = tcp().filter(|one| one.transport == "mptcp").count();
    (tcp().map(|one| one.subflows.len()).sum(), multipath, figures)
}

/// A row of the table: file, flows, MPTCP connections, packets, bytes, retransmissions, findings.
fn row(
    name: &str,
    document: &TraceDocument,
    ours: (usize, usize, Figures),
    theirs: (usize, usize, Figures),
) -> String {
    let mut findings: BTreeMap<&str, u32> = BTreeMap::new();
    document.findings.iter().for_each(|one| *findings.entry(&one.id).or_default() += 1);
    let findings: Vec<String> = findings.iter().map(|(id, count)| format!("{count} {id}")).collect();
    format!(
        "| {name} | {} / {} | {} / {} | {} / {} | {} / {} | {} / {} + {} | {} |",
        ours.0,
        theirs.0,
        ours.1,
        theirs.1,
        ours.2.packets,
        theirs.2.packets,
        ours.2.payload_bytes,
        theirs.2.payload_bytes,
        ours.2.retransmissions,
        theirs.2.retransmissions,
        theirs.2.out_of_order,
        findings.join(", "),
    )
}

/// tshark takes long to start.
const AT_ONCE: usize = 4;

fn the_captures_have_the_connections_packets_and_bytes_of_tshark() {
    for captures in CAPTURES.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            for (name, bytes) in captures {
                scope.spawn(|| check(name, bytes));
            }
        });
    }
}

fn check(name: &str, bytes: &[u8]) {
    let document = document(&[bytes], 1_000);
    let (ours, theirs) = (of_analysis(&document), of_tshark(bytes));
    let row = row(name, &document, ours, theirs);
    assert_eq!(ours.0, theirs.0, "flows: {row}");
    assert_eq!(ours.1, theirs.1, "MPTCP connections: {row}");
    assert_eq!(ours.2.packets, theirs.2.packets, "packets: {row}");
    assert_eq!(ours.2.payload_bytes, theirs.2.payload_bytes, "bytes: {row}");
    // tshark tells a retransmission from reordering by time: a packet is one of the two there, or neither.
    assert!(
        ours.2.retransmissions <= theirs.2.retransmissions + theirs.2.out_of_order,
        "retransmissions: {row}"
    );
}
