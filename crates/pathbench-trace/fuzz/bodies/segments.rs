//! Scripts of segments through the whole analysis: plausible flows with arbitrary options, numbers and times.

use pathbench_record::trace::{SubflowDirection, TraceDocument, TracedConnection};
use pathbench_trace::analysis::{AnalysisParameters, analyse, open};
use pathbench_trace::capture::{Frame, InterfaceDescription, writer};
use pathbench_trace::extract::Extract;
use pathbench_trace::graph::Graphs;
use pathbench_trace::quic::Quic;

/// Bytes of a step before its options.
const STEP: usize = 8;
const RAW: u16 = 101;

/// Input: steps of [`STEP`] bytes, each with up to 40 bytes of TCP options after it.
///
/// A step: flow and direction and capture; flags; sequence number; acknowledgment; payload; time; length of the options.
pub(crate) fn run(input: &[u8]) {
    let interface = InterfaceDescription { link_type: RAW, ..InterfaceDescription::default() };
    let mut captures = [Vec::new(), Vec::new()];
    for capture in &mut captures {
        writer::begin(std::slice::from_ref(&interface), capture);
    }
    let (mut rest, mut time_ns) = (input, 1_700_000_000_000_000_000_u64);
    while let Some((step, after)) = rest.split_first_chunk::<STEP>() {
        let [origin, flags, sequence, acknowledgment, payload, time, options, comment] = *step;
        let (options, after) = after.split_at(after.len().min(usize::from(options % 41) / 4 * 4));
        rest = after;
        time_ns += u64::from(time).pow(4);
        let packet = packet(origin, flags, sequence, acknowledgment, payload, options);
        let frame = Frame {
            interface: 0,
            time_ns,
            original_length: packet.len() as u32,
            bytes: &packet,
            comment: (comment > 200).then_some(b"comment".as_slice()),
        };
        writer::packet(&frame, &mut captures[usize::from(origin >> 7)]);
    }
    let sources =
        || captures.iter().filter_map(|capture| open("script".to_owned(), capture.as_slice()).ok()).collect();
    let graphs = Graphs::new(0..20, 0);
    let interfaces = [vec![interface.clone()], vec![interface]];
    let extract = Extract::new(0..20, &interfaces, |_, _| {});
    let parameters = AnalysisParameters { most: 3, seed: 1 };
    let analysis = analyse(sources(), &parameters, Quic::new(None), (graphs, extract));
    let (graphs, extract) = analysis.sequence;
    check(&analysis.document);
    graphs.into_lines();
    extract.finish();
    let again = analyse(sources(), &parameters, Quic::new(None), ()).document;
    assert_eq!(again.totals, analysis.document.totals);
}

fn packet(origin: u8, flags: u8, sequence: u8, acknowledgment: u8, payload: u8, options: &[u8]) -> Vec<u8> {
    let client = ([10, 0, 0, origin & 3], 1_000_u16);
    let server = ([10, 0, 1, 0], 443_u16);
    let (source, destination) = if origin & 4 == 0 { (client, server) } else { (server, client) };
    // Near the wrap of sequence numbers, and far from it.
    let base = if origin & 8 == 0 { u32::MAX - 300 } else { 0 };
    let length = 40 + options.len() + usize::from(payload) * 4;
    let mut packet = vec![0x45, 0, (length >> 8) as u8, length as u8, 0, 0, 0x40, 0, 64, 6, 0, 0];
    packet.extend(source.0);
    packet.extend(destination.0);
    packet.extend(source.1.to_be_bytes());
    packet.extend(destination.1.to_be_bytes());
    packet.extend(base.wrapping_add(u32::from(sequence) * 8).to_be_bytes());
    packet.extend(base.wrapping_add(u32::from(acknowledgment) * 8).to_be_bytes());
    packet.extend([(((20 + options.len()) / 4) << 4) as u8, flags & 0x17, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(options);
    packet.resize(length, origin);
    packet
}

/// Bytes are conserved, however the packets lie.
fn check(document: &TraceDocument) {
    assert!(document.connections.len() <= 3);
    // Two points of capture need not have the same packets: a sender's figures are those of the nearer one.
    let compared = |connection: &&TracedConnection| {
        connection.subflows.iter().any(|subflow| subflow.comparison.is_some())
    };
    for connection in document.connections.iter().filter(|connection| !compared(connection)) {
        for direction in [&connection.upload, &connection.download] {
            let reinjected = direction.reinjected_bytes.unwrap_or(0);
            assert!(direction.reinjected_same_subflow_bytes.unwrap_or(0) <= reinjected, "{connection:#?}");
            assert!(direction.data_bytes + reinjected <= direction.payload_bytes, "{connection:#?}");
        }
        for sent in connection.subflows.iter().flat_map(|subflow| [&subflow.upload, &subflow.download]) {
            assert!(sent.retransmitted_bytes <= sent.payload_bytes, "{sent:#?}");
            assert!(sum(sent, |sent| &sent.throughput.bytes) == sent.payload_bytes, "{sent:#?}");
            assert!(sum(sent, |sent| &sent.goodput.bytes) <= sent.payload_bytes, "{sent:#?}");
            assert!(sent.payload_bytes <= sent.ip_bytes, "{sent:#?}");
        }
    }
}

fn sum(sent: &SubflowDirection, bytes: impl Fn(&SubflowDirection) -> &Vec<u64>) -> u64 {
    bytes(sent).iter().sum()
}
