//! Each display filter that the analysis prints selects, in tshark, the packets that it names.

use crate::attempts;
use crate::tshark::File;
use crate::wire::{
    ACK, CLIENT, CLIENT_KEY, Capture, End, FIN, RST, SECOND, SERVER, SERVER_KEY, SYN, Segment, Subflow,
    capable, document, dss, initial_data,
};
use pathbench_trace::finding::FindingKind as Kind;

pathbench_testkit::tests!(
    ["tshark"] => the_filter_of_each_finding_selects_its_packets,
    filters_of_connections_and_subflows_select_all_their_packets;
);

/// A capture, or two, with a finding, and the numbers of the frames that show it in the capture that it names.
struct Case {
    captures: Vec<Vec<u8>>,
    frames: &'static [u64],
}

fn one(capture: Capture, frames: &'static [u64]) -> Case {
    Case { captures: vec![capture.into_bytes()], frames }
}

fn shown((capture, frames): (Capture, &'static [u64])) -> Case {
    one(capture, frames)
}

const PLAIN: [u32; 2] = [77, 900];

/// A handshake of TCP, frames 1 to 3.
fn begun() -> (Capture, Subflow) {
    let (mut capture, flow) = (Capture::new(), Subflow::new(CLIENT, PLAIN));
    capture
        .segment(&flow.from(0, SYN, 0, 0))
        .segment(&flow.from(1, SYN | ACK, 0, 1))
        .segment(&flow.from(0, ACK, 1, 1));
    (capture, flow)
}

/// A handshake of MPTCP, frames 1 to 3.
fn begun_multipath() -> (Capture, Subflow) {
    let (mut capture, flow) = (Capture::new(), Subflow::new(CLIENT, [5, 6]));
    flow.handshake(&mut capture);
    (capture, flow)
}

/// Two subflows, frames 1 to 6.
fn joined() -> (Capture, [Subflow; 2]) {
    let (mut capture, first) = begun_multipath();
    let second = Subflow::new(SECOND, [7, 8]);
    second.join(&mut capture);
    (capture, [first, second])
}

/// An unrelated flow, so that frame numbers and positions within a flow differ.
fn noise(capture: &mut Capture) {
    let flow = Subflow::new(([192, 0, 2, 99], 5_555), [1, 1]);
    for sequence in [1, 1, 500] {
        capture.segment(&flow.from(0, ACK, sequence, 1).payload(200));
    }
}

fn fallback() -> Case {
    let (mut capture, flow) = begun_multipath();
    noise(&mut capture);
    capture.segment(&flow.from(0, ACK, 1, 1).payload(60)).segment(&flow.from(0, ACK, 61, 1).payload(40));
    one(capture, &[7])
}

/// Checksums are required; the first mapping has a wrong one.
fn checksum() -> Case {
    let (mut capture, flow) = (Capture::new(), Subflow::new(CLIENT, [5, 6]));
    let required = |keys: &[pathbench_trace::mptcp::keys::Key]| {
        let mut option = capable(keys);
        option[3] |= 0x80;
        option
    };
    capture.segment(&flow.from(0, SYN, 0, 0).option(&required(&[])));
    capture.segment(&flow.from(1, SYN | ACK, 0, 1).option(&required(&[SERVER_KEY])));
    capture.segment(&flow.from(0, ACK, 1, 1).option(&required(&[CLIENT_KEY, SERVER_KEY])));
    let mapping = (initial_data(CLIENT_KEY).wrapping_add(1), 1, 100);
    let mut option = dss(initial_data(SERVER_KEY).wrapping_add(1), Some(mapping), false);
    option.extend([0x12, 0x34]);
    option[1] += 2;
    capture.segment(&flow.from(0, ACK, 1, 1).option(&option).payload(100));
    one(capture, &[4])
}

fn reinjections() -> Case {
    let (mut capture, [first, second]) = joined();
    capture.segment(&first.upload(1, 1, 500)).segment(&first.upload(501, 501, 500));
    noise(&mut capture);
    // On the other subflow, and on the same under another sequence number.
    capture.segment(&second.upload(1, 501, 500)).segment(&first.upload(1_001, 1, 500));
    one(capture, &[12, 13])
}

fn one_path() -> Case {
    let (mut capture, [first, second]) = joined();
    capture.segment(&second.upload(1, 1, 10));
    for number in 0..5 {
        capture.segment(&first.upload(1 + 30_000 * number, 11 + 30_000 * u64::from(number), 30_000));
    }
    one(capture, &[1, 2, 3, 8, 9, 10, 11, 12])
}

fn retransmissions() -> Case {
    let (mut capture, flow) = begun();
    let data = |sequence: u32| flow.from(1, ACK, sequence, 1).payload(1_000);
    capture.segment(&data(1)).segment(&data(2_001)).segment(&data(1_001));
    // tshark calls a quick one "out of order", and one after its acknowledgment "spurious".
    capture.segment(&data(2_001)).segment(&flow.from(0, ACK, 1, 3_001)).wait(500.0).segment(&data(1));
    capture.segment(&flow.from(0, ACK, 1, 1).payload(10));
    one(capture, &[7, 9])
}

/// Payload beyond its mapping, in a packet with an option of MPTCP.
fn unmapped() -> Case {
    let (mut capture, flow) = begun_multipath();
    capture.segment(&flow.upload(1, 1, 500));
    let option = dss(initial_data(SERVER_KEY).wrapping_add(1), None, false);
    capture.segment(&flow.from(0, ACK, 501, 1).option(&option).payload(300));
    // Payload before its mapping is not unmapped.
    capture.segment(&flow.from(0, ACK, 901, 1).option(&option).payload(100));
    let mapping = (initial_data(CLIENT_KEY).wrapping_add(901), 801, 200);
    let option = dss(initial_data(SERVER_KEY).wrapping_add(1), Some(mapping), false);
    capture.segment(&flow.from(0, ACK, 801, 1).option(&option).payload(100));
    one(capture, &[5])
}

/// A gap in the middle, and one at the end.
fn missing() -> Case {
    let (mut capture, flow) = begun();
    capture.segment(&flow.from(0, ACK, 1_001, 1).payload(100)).segment(&flow.from(1, ACK, 1, 1_101));
    capture.segment(&flow.from(0, ACK, 1_101, 1).payload(100)).segment(&flow.from(1, ACK, 1, 1_201));
    capture.segment(&flow.from(1, ACK, 1, 2_000));
    one(capture, &[5, 8])
}

fn too_big() -> Case {
    let (mut capture, flow) = begun();
    let data = flow.from(1, ACK, 1, 1).payload(1_400);
    capture.segment(&data);
    let mut report = |data: &Segment| {
        let mut packet = vec![0x45, 0, 0, 56, 0, 0, 0x40, 0, 64, 1, 0, 0, 192, 0, 2, 254];
        packet.extend(SERVER.0);
        packet.extend([3, 4, 0, 0, 0, 0, 5, 0]);
        packet.extend(&data.packet()[..28]);
        capture.packet(&packet);
    };
    // Another flow's first.
    report(&Segment::new(SERVER, ([9, 9, 9, 9], 9), ACK, 1, 1));
    report(&data);
    one(capture, &[6])
}

fn black_hole() -> Case {
    let (mut capture, flow) = begun();
    capture.segment(&flow.from(1, ACK, 1, 1).payload(500)).segment(&flow.from(0, ACK, 1, 501));
    for _ in 0..6 {
        capture.segment(&flow.from(1, ACK, 501, 1).payload(1_400)).wait(200.0);
    }
    one(capture, &[7, 8, 9, 10, 11])
}

fn join_hmac() -> Case {
    let (mut capture, _) = begun_multipath();
    let second = Subflow::new(SECOND, [7, 8]);
    let mut other = Capture::new();
    second.join(&mut other);
    let token = pathbench_trace::mptcp::keys::token(1, SERVER_KEY);
    let mut syn = vec![30, 12, 0x10, 2];
    syn.extend(token.to_be_bytes());
    syn.extend(7_u32.to_be_bytes());
    capture.segment(&second.from(0, SYN, 0, 0).option(&syn));
    let wrong = [vec![30, 16, 0x10, 0], vec![9; 12]].concat();
    capture.segment(&second.from(1, SYN | ACK, 0, 1).option(&wrong));
    capture.segment(&second.from(0, RST, 1, 1));
    one(capture, &[4, 5])
}

fn reset() -> Case {
    let (mut capture, [first, second]) = joined();
    capture.segment(&first.upload(1, 1, 100));
    capture.segment(&second.from(1, RST | ACK, 1, 1).option(&[30, 4, 0x80, 0x05]));
    one(capture, &[8])
}

const MOVED: End = ([198, 51, 100, 77], 61_234);

/// A flow at two points: what the server's point changes of a segment. `None`: it is lost.
fn compared(change: impl Fn(usize, Segment) -> Option<Segment>) -> Vec<Vec<u8>> {
    let flow = Subflow::new(CLIENT, PLAIN);
    let option = |segment: Segment| segment.option(&[2, 4, 5, 180]);
    let segments = [
        option(flow.from(0, SYN, 0, 0)),
        option(flow.from(1, SYN | ACK, 0, 1)),
        flow.from(0, ACK, 1, 1),
        flow.from(0, ACK, 1, 1).payload(500),
        flow.from(1, ACK, 1, 501),
        flow.from(0, ACK, 501, 1).payload(600),
        flow.from(0, ACK, 1_101, 1).payload(700),
        flow.from(1, ACK, 1, 1_801),
        flow.from(0, ACK | FIN, 1_801, 1),
    ];
    let mut captures = [Capture::new(), Capture::new()];
    // Frame numbers differ between the files.
    noise(&mut captures[1]);
    for (number, segment) in segments.iter().enumerate() {
        let from_server = usize::from(segment.from == SERVER);
        let start = 1_000_000.0 + 40.0 * number as f64;
        captures[from_server].now_ms = start;
        captures[1 - from_server].now_ms = start + 10.0;
        captures[0].segment(segment);
        if let Some(segment) = change(number, segment.clone()) {
            captures[1].segment(&segment);
        }
    }
    captures.map(Capture::into_bytes).into()
}

fn two(frames: &'static [u64], change: impl Fn(usize, Segment) -> Option<Segment>) -> Case {
    Case { captures: compared(change), frames }
}

fn case(kind: Kind) -> Case {
    match kind {
        Kind::Fallback => fallback(),
        Kind::Checksum => checksum(),
        Kind::Reinjections => reinjections(),
        Kind::OnePath => one_path(),
        Kind::Retransmissions => retransmissions(),
        Kind::Unmapped => unmapped(),
        Kind::Missing => missing(),
        Kind::TooBig => too_big(),
        Kind::BlackHole => black_hole(),
        Kind::JoinHmac => join_hmac(),
        Kind::Reset => reset(),
        Kind::SequenceRewritten => two(&[1, 2], |_, mut segment| {
            let up = segment.from == CLIENT;
            let field = if up { &mut segment.sequence } else { &mut segment.acknowledgment };
            *field = field.wrapping_add(0x7234_5678);
            Some(segment)
        }),
        Kind::PayloadRewritten => {
            // The payload is 0xab in all segments; here one byte of the header of the payload differs.
            let mut case = two(&[4], |_, segment| Some(segment));
            let last = case.captures[1].len() - 1;
            let file = &mut case.captures[1];
            let payload = file.windows(500).position(|bytes| bytes == [0xab; 500]).unwrap_or(last);
            // Behind the packets of the other flow there is one payload of 500 bytes.
            file[payload + 250] = 0xcd;
            case
        }
        Kind::OptionRemoved => two(&[1, 2, 4, 6, 7], |_, mut segment| {
            segment.options.clear();
            Some(segment)
        }),
        Kind::MssClamped => two(&[1, 2], |_, mut segment| {
            if segment.from == CLIENT && segment.flags == SYN {
                segment.options = vec![2, 4, 5, 100];
            }
            Some(segment)
        }),
        Kind::ZeroWindow => shown(attempts::zero_window()),
        Kind::OneDirection => shown(attempts::one_direction()),
        Kind::ConnectUnanswered => shown(attempts::connect_unanswered()),
        Kind::ConnectUnacknowledged => shown(attempts::connect_unacknowledged()),
        Kind::ConnectRefused => shown(attempts::connect_refused()),
        Kind::JoinUnanswered => shown(attempts::join_unanswered()),
        Kind::JoinUnacknowledged => shown(attempts::join_unacknowledged()),
        Kind::JoinRefused => shown(attempts::join_refused()),
        Kind::AddAddrUnconfirmed => shown(attempts::announced_again()),
        Kind::NeverJoined => shown(attempts::announced_in_vain()),
        Kind::Loss => two(&[6], |number, segment| (number != 5).then_some(segment)),
    }
}

/// tshark takes long to start.
const AT_ONCE: usize = 4;

fn the_filter_of_each_finding_selects_its_packets() {
    for kinds in Kind::ALL.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            for kind in kinds {
                scope.spawn(|| check(*kind));
            }
        });
    }
}

fn check(kind: Kind) {
    let case = case(kind);
    let captures: Vec<&[u8]> = case.captures.iter().map(Vec::as_slice).collect();
    let document = document(&captures, 100);
    let name = kind.name();
    let found = document.findings.iter().find(|finding| finding.id == name);
    let found = found.unwrap_or_else(|| panic!("no {name}: {:#?}", document.findings));
    let file = File::new(captures[found.capture.unwrap_or(0) as usize]);
    assert_eq!(file.frames(&found.filter), case.frames, "{name}: {}", found.filter);
}

fn filters_of_connections_and_subflows_select_all_their_packets() {
    let (mut capture, [first, second]) = joined();
    noise(&mut capture);
    capture.segment(&first.upload(1, 1, 10)).segment(&second.upload(1, 11, 10));
    let bytes = capture.into_bytes();
    let found = document(&[&bytes], 100);
    let file = File::new(&bytes);
    let connection = found.connections.iter().find(|one| one.transport == "mptcp").unwrap();
    assert_eq!(file.frames(&connection.filter), [1, 2, 3, 4, 5, 6, 10, 11]);
    assert_eq!(file.frames(&connection.subflows[1].filter), [4, 5, 6, 11]);
    // Behind a NAT, the filter selects the packets at both points.
    let captures = compared(|_, mut segment| {
        for end in [&mut segment.from, &mut segment.to] {
            if *end == CLIENT {
                *end = MOVED;
            }
        }
        Some(segment)
    });
    let found = document(&[&captures[0], &captures[1]], 100);
    let connection = found.connections.iter().find(|one| one.upload.payload_bytes == 1_800).unwrap();
    let counts = captures.iter().map(|bytes| File::new(bytes).frames(&connection.filter).len());
    assert_eq!(counts.collect::<Vec<_>>(), [9, 9], "{}", connection.filter);
}
