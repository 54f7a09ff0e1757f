//! Every combination of evidence for the stage of a subflow.

use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::stage::SubflowStage::{Answered, Attempted, Carried, Negotiated, Opened};
use pathbench_record::stage::{
    HandshakeCounters, HandshakeState, SubflowEvidence, SubflowOpening, SubflowStage,
};
use std::collections::BTreeMap;
use strum::VariantArray as _;

const OPENINGS: [SubflowOpening; 2] = [SubflowOpening::Initial, SubflowOpening::Join];
const STATES: [HandshakeState; 4] = [
    HandshakeState::Unseen,
    HandshakeState::SynSent,
    HandshakeState::SynReceived,
    HandshakeState::Established,
];
const ASKED: [Option<bool>; 3] = [None, Some(false), Some(true)];

/// The rises of counters that the middleboxes and settings of `docs/troubleshooting.md` cause at the connecting host.
fn counters() -> Vec<HandshakeCounters> {
    let none = HandshakeCounters::default();
    let sent = HandshakeCounters { syn_sent: 1, ..none };
    let agreed = HandshakeCounters { syn_ack_received: 1, ..sent };
    vec![
        none,
        sent,
        HandshakeCounters { syn_dropped: 1, ..sent },
        HandshakeCounters { syn_disabled: 1, ..none },
        HandshakeCounters { fallback: 1, ..sent },
        HandshakeCounters { reset_sent: 1, ..sent },
        HandshakeCounters { reset_received: 1, ..sent },
        agreed,
        HandshakeCounters { reset_sent: 1, ..agreed },
        HandshakeCounters { reset_received: 1, ..agreed },
    ]
}

fn all() -> impl Iterator<Item = SubflowEvidence> {
    let flags = 0_u8..16;
    OPENINGS.into_iter().flat_map(move |opening| {
        let flags = flags.clone();
        STATES.into_iter().flat_map(move |state| {
            let flags = flags.clone();
            ASKED.into_iter().flat_map(move |is_agreed| {
                let flags = flags.clone();
                ASKED.into_iter().flat_map(move |is_fully_established| {
                    let flags = flags.clone();
                    counters().into_iter().flat_map(move |counters| {
                        flags.clone().map(move |bits| SubflowEvidence {
                            opening,
                            state,
                            is_agreed,
                            is_fully_established,
                            packets_received: u64::from(bits & 1),
                            is_refused: bits & 2 != 0,
                            acked_bytes: u64::from(bits & 4),
                            received_bytes: u64::from(bits & 8),
                            counters,
                        })
                    })
                })
            })
        })
    })
}

#[test]
fn the_stages_are_ordered_and_each_has_words_of_its_own() {
    let ordered = [Attempted, Answered, Negotiated, Opened, Carried];
    assert!(ordered.is_sorted() && ordered == *SubflowStage::VARIANTS);
    assert_eq!(ordered.map(SubflowStage::is_opened), [false, false, false, true, true]);
    for one in ordered {
        assert_eq!(ordered.iter().filter(|other| other.words() == one.words()).count(), 1);
    }
}

/// What each stage requires, over every combination of evidence.
#[test]
fn no_stage_is_reached_without_its_evidence() {
    let mut found = BTreeMap::<Option<SubflowStage>, u32>::new();
    for one in all() {
        let stage = one.stage();
        *found.entry(stage).or_default() += 1;
        let payload = one.acked_bytes + one.received_bytes > 0;
        let is_established = one.state == HandshakeState::Established;
        let is_answered = payload
            || one.state >= HandshakeState::SynReceived
            || one.packets_received > 0
            || one.is_refused
            || one.is_agreed == Some(true)
            || one.counters != (HandshakeCounters { syn_sent: one.counters.syn_sent, ..Default::default() })
                && one.counters.syn_disabled == 0;
        let is_attempted = is_answered
            || one.state == HandshakeState::SynSent
            || one.counters.syn_sent > 0
            || one.counters.syn_disabled > 0;
        match stage {
            None => assert!(!is_attempted, "{one:?}"),
            Some(Attempted) => assert!(is_attempted && !is_answered, "{one:?}"),
            Some(Answered) => assert!(is_answered && one.is_agreed != Some(true), "{one:?}"),
            Some(Negotiated) => assert!(one.is_agreed != Some(false) && !payload, "{one:?}"),
            Some(Opened) => {
                assert!(one.is_agreed != Some(false) && !payload && is_established, "{one:?}");
                let is_join = one.opening == SubflowOpening::Join;
                assert!(!is_join || one.is_fully_established != Some(false), "{one:?}");
            }
            Some(Carried) => assert!(one.is_agreed != Some(false) && payload, "{one:?}"),
        }
    }
    assert_eq!(found.len(), 6, "each stage and none: {found:?}");
}

#[test]
fn more_evidence_of_an_answer_or_of_payload_never_lowers_the_stage() {
    for one in all() {
        let stage = one.stage();
        for more in [
            SubflowEvidence { packets_received: 1, ..one },
            SubflowEvidence { received_bytes: 8, ..one },
            SubflowEvidence { acked_bytes: 8, ..one },
        ] {
            assert!(more.stage() >= stage, "{one:?}");
        }
    }
}

/// Name, opening, state of the socket, counters that rose, stage.
type Case<'a> = (&'a str, SubflowOpening, HandshakeState, &'a [&'a str], Option<SubflowStage>);

#[test]
fn the_known_middleboxes_have_their_stage() {
    use SubflowOpening::{Initial, Join};
    let differences = |names: &[&str]| -> BTreeMap<String, i64> {
        names.iter().map(|name| (format!("MPTcpExt.{name}"), 1)).collect()
    };
    let cases: &[Case] = &[
        ("nothing was sent", Join, HandshakeState::Unseen, &[], None),
        ("join: SYN dropped", Join, HandshakeState::SynSent, &["MPJoinSynTx"], Some(Attempted)),
        ("join: SYN dropped, socket gone", Join, HandshakeState::Unseen, &["MPJoinSynTx"], Some(Attempted)),
        ("join: stripped", Join, HandshakeState::Unseen, &["MPJoinSynTx", "MPRstTx"], Some(Answered)),
        (
            "join: third ACK lost",
            Join,
            HandshakeState::Established,
            &["MPJoinSynTx", "MPJoinSynAckRx", "MPRstTx"],
            Some(Negotiated),
        ),
        ("join: opened", Join, HandshakeState::Established, &["MPJoinSynTx", "MPJoinSynAckRx"], Some(Opened)),
        (
            "join: opened once, closed since",
            Join,
            HandshakeState::Unseen,
            &["MPJoinSynTx", "MPJoinSynAckRx"],
            Some(Negotiated),
        ),
        ("SYN dropped", Initial, HandshakeState::SynSent, &["MPCapableSYNTX"], Some(Attempted)),
        (
            "SYN with the option dropped",
            Initial,
            HandshakeState::Established,
            &["MPCapableSYNTX", "MPCapableSYNTXDrop"],
            Some(Answered),
        ),
        ("suspended", Initial, HandshakeState::Established, &["MPCapableSYNTXDisabled"], Some(Answered)),
        (
            "suspended and unanswered",
            Initial,
            HandshakeState::SynSent,
            &["MPCapableSYNTXDisabled"],
            Some(Attempted),
        ),
        (
            "stripped",
            Initial,
            HandshakeState::Established,
            &["MPCapableSYNTX", "MPCapableFallbackSYNACK"],
            Some(Answered),
        ),
        (
            "opened",
            Initial,
            HandshakeState::Established,
            &["MPCapableSYNTX", "MPCapableSYNACKRX"],
            Some(Opened),
        ),
    ];
    for (name, opening, state, names, expected) in cases {
        let counters = HandshakeCounters::from_differences(&differences(names), *opening);
        let found = SubflowEvidence { opening: *opening, state: *state, counters, ..Default::default() };
        assert_eq!(found.stage(), *expected, "{name}");
    }
}

/// Regression: an unanswered join counted as an opened subflow, and a refused one as closed.
#[test]
fn figures_prove_no_more_than_they_show() {
    let address = "192.0.2.1:9".parse().unwrap();
    let figures = |state, packets: u64, sent: u64, acked: u64, received: u64| PathFigures {
        state,
        packets_received: Some(packets),
        bytes_sent: sent,
        bytes_acked: acked,
        bytes_received: received,
        ..PathFigures::new(address, address)
    };
    for (figures, expected) in [
        (figures(PathState::Opening, 0, 0, 0, 0), Some(Attempted)),
        (figures(PathState::Closed, 0, 0, 0, 0), None),
        (figures(PathState::Closed, 1, 0, 0, 0), Some(Answered)),
        (figures(PathState::Open, 2, 0, 0, 0), Some(Opened)),
        (figures(PathState::Open, 2, 9000, 0, 0), Some(Opened)),
        (figures(PathState::Open, 2, 9000, 10, 0), Some(Carried)),
        (figures(PathState::Closed, 2, 0, 0, 10), Some(Carried)),
    ] {
        let found = SubflowEvidence::from_figures(&figures, SubflowOpening::Join).stage();
        assert_eq!(found, expected, "{figures:?}");
    }
}
