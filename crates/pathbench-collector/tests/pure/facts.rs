//! The compact form of the figures of a result.

use crate::support::synthetic::Campaign;
use pathbench_api::consent::Consent;
use pathbench_api::name::Name;
use pathbench_collector::facts::{
    Bucket, Facts, Reach, Source, decode, encode, figure_index, gain_index, measure,
};
use pathbench_record::network::AddressFamily;
use pathbench_record::transport::Transport;
use proptest::prelude::*;

const SOURCE: Source = Source(0x1234_5678_9abc_def0);

#[test]
fn facts_survive_their_coding_and_are_small() {
    let campaign = Campaign::default();
    let mut bytes = 0;
    for index in 0..500 {
        let checked = campaign.checked(index);
        let encoded = encode(&checked, SOURCE);
        let facts = Facts::from_summary(&checked.submission.summary, checked.submission.consent);
        assert_eq!(decode(&encoded).unwrap(), Facts { source: SOURCE.0, ..facts.clone() });
        // As collectors wrote them that knew nothing of the second path, with a source and without one.
        let mut earlier = encoded[..encoded.len() - 2].to_vec();
        earlier[0] = 1;
        for (bytes, source) in [(&earlier[..], SOURCE.0), (&earlier[..earlier.len() - 8], 0)] {
            let found = decode(bytes).unwrap();
            assert_eq!((found.figures, found.source), (facts.figures, source));
            assert!(found.gains.iter().all(|gain| !gain.is_present()), "of another rule");
            assert_eq!(found.second_path.measured & facts.second_path.used, facts.second_path.used);
        }
        bytes += encoded.len();
    }
    assert!(bytes / 500 < 300, "{} bytes a result", bytes / 500);
}

#[test]
fn a_gain_compares_with_the_best_of_all_paths_of_one_variant() {
    let mut summary = (0..1000)
        .map(|index| Campaign::default().submission(index).summary)
        .find(|one| one.groups.iter().any(|group| group.pattern.as_str() == "bulk"));
    let summary = summary.as_mut().unwrap();
    let mut template = summary.groups[0].clone();
    summary.groups.clear();
    for (label, variant, goodput, used) in [
        ("tcp@wlan", "a", 10.0, 0),
        ("tcp@eth", "a", 40.0, 0),
        ("mptcp", "a", 60.0, 3),
        // The first path without its name.
        ("tcp", "b", 10.0, 0),
        ("tcp@wlan", "b", 5.0, 0),
        ("mptcp", "b", 25.0, 3),
        // One path of two was measured alone.
        ("tcp@eth", "c", 10.0, 0),
        ("mptcp", "c", 99.0, 3),
        ("quic@eth", "a", 10.0, 0),
        ("quic@wlan", "a", 10.0, 0),
        // Fell back in one of three runs.
        ("mpquic", "a", 99.0, 2),
    ] {
        template.shares = match label.split_once('@') {
            Some((_, path)) => [(Name::new(path).unwrap(), 1.0)].into(),
            None if label == "tcp" => [(Name::new("eth").unwrap(), 1.0)].into(),
            None => [(Name::new("eth").unwrap(), 0.6), (Name::new("wlan").unwrap(), 0.4)].into(),
        };
        template.label = Name::new(label).unwrap();
        template.pattern = Name::new("bulk").unwrap();
        template.variant = Some(Name::new(variant).unwrap());
        template.multipath_used = used;
        template.figures = [(Name::new("goodput_mbps").unwrap(), goodput)].into();
        summary.groups.push(template.clone());
    }
    let facts = Facts::from_summary(summary, Consent::Private);
    // The median of 60/40 and 25/10.
    assert_eq!(facts.gains[gain_index(0, 0)], Bucket::from_value(2.0));
    assert_eq!(facts.gains[gain_index(0, 1)], Bucket::ABSENT);
    assert_eq!((facts.second_path.measured, facts.second_path.used), (0b11, 0b01));
    // A path on which no run completed was not measured.
    let mut failed = summary.clone();
    for group in failed.groups.iter_mut().filter(|group| group.label.as_str() == "tcp@wlan") {
        group.completed = 0;
    }
    assert_eq!(Facts::from_summary(&failed, Consent::Private).gains[gain_index(0, 0)], Bucket::ABSENT);
    let bulk = measure("bulk", "goodput_mbps").unwrap();
    assert_eq!(facts.figures[figure_index(bulk, Transport::Mpquic)], Bucket::ABSENT);
    // The median of 40, 10 and 10.
    assert_eq!(facts.figures[figure_index(bulk, Transport::Tcp)], Bucket::from_value(10.0));
}

#[test]
fn one_port_that_answers_is_reachable() {
    let summary = (0..1000).map(|index| Campaign::default().submission(index).summary);
    let mut summary = summary.into_iter().find(|one| one.reachability.len() == 2).unwrap();
    let mut other = summary.reachability[0].clone();
    summary.reachability[0].reachable = false;
    other.reachable = true;
    other.port = 6121;
    summary.reachability.push(other);
    let found = Facts::from_summary(&summary, Consent::Private).reachability;
    assert_eq!(Reach::from_bits(found, Transport::Quic, AddressFamily::Ipv4), Reach::Reachable);
    assert_eq!(Reach::from_bits(found, Transport::Tcp, AddressFamily::Ipv4), Reach::Untested);
}

#[test]
fn public_names_have_the_anonymous_form() {
    let mut submission = Campaign::default().submission(3);
    for name in ["192.0.2.77", "2001:db8:1:2::3"] {
        submission.summary.server = Some(Name::new(name).unwrap());
        submission.summary.scenario = Name::new(format!("x {name}")).unwrap();
        let public = format!("{:?}", Facts::from_summary(&submission.summary, Consent::Public));
        let private = format!("{:?}", Facts::from_summary(&submission.summary, Consent::Private));
        assert!(private.contains(name) && !public.contains(name), "{public}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_facts_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode(&bytes);
    }

    /// Mutations reach what random bytes do not.
    #[test]
    fn changed_facts_are_facts_or_an_error(
        index in 0..300_u64,
        changes in proptest::collection::vec((0..400_usize, any::<u8>()), 0..6),
        length in 0..400_usize,
    ) {
        let mut bytes = encode(&Campaign::default().checked(index), SOURCE);
        for (at, byte) in changes {
            if let Some(one) = bytes.get_mut(at) {
                *one = byte;
            }
        }
        bytes.truncate(length);
        if let Ok(facts) = decode(&bytes) {
            prop_assert!(facts.figures.iter().all(|bucket| bucket.index() < 4096));
        }
    }
}
