//! Results as an agent submits them.

use super::random;
use pathbench_api::Uuid;
use pathbench_api::consent::Consent;
use pathbench_api::digest::Digest;
use pathbench_api::name::Name;
use pathbench_api::submission::{Checked, SCHEMA, Submission, new_id};
use pathbench_api::summary::{GroupSummary, Mode, Network, NetworkKind, Summary};
use pathbench_collector::facts::Source;
use pathbench_collector::ingest::{SubmissionGroup, Submitted};
use pathbench_collector::store::{NewResult, RawRange};

/// 2026-11-25
pub(crate) const NOW_MS: u64 = 1_795_600_000_000;

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn id_at(unix_ms: u64) -> Uuid {
    new_id(unix_ms, &random())
}

pub(crate) fn result(id: Uuid, content: &str) -> NewResult {
    NewResult {
        id,
        digest: Digest::compute(content.as_bytes()),
        agent: Uuid::from_u128(7),
        consent: Consent::Public,
        deletion: Digest::compute(b"token"),
        received_ms: NOW_MS,
        summary: format!("{{\"content\":\"{content}\"}}").into_bytes(),
        facts: content.as_bytes().to_vec(),
        raw: None,
    }
}

pub(crate) fn raw_range(segment: &str, offset: u64, bytes: u64) -> RawRange {
    RawRange { segment: segment.to_owned(), offset, bytes, digest: Digest::compute(segment.as_bytes()) }
}

/// A summary of about 4 KB as JSON.
pub(crate) fn summary() -> Summary {
    let group = |label: &str, pattern: &str| GroupSummary {
        label: name(label),
        pattern: name(pattern),
        variant: None,
        runs: 10,
        valid: 10,
        completed: 10,
        multipath_used: 9,
        figures: [
            "goodput_mbps",
            "fct_ms",
            "stall_ms",
            "recovery_ms",
            "delay_p50_ms",
            "delay_p95_ms",
            "delay_p99_ms",
            "delay_max_ms",
            "rtt_ms",
            "retransmitted_bytes",
        ]
        .into_iter()
        .zip(1..)
        .map(|(figure, factor)| (name(figure), 17.25 * f64::from(factor)))
        .collect(),
        shares: [(name("wlan"), 0.75), (name("cell"), 0.25)].into(),
    };
    let labels = ["tcp@wlan", "tcp@cell", "mptcp", "quic@wlan", "mpquic"];
    let network = |path: &str, kind| Network {
        path: name(path),
        kind,
        operator: Some(name("Example")),
        prefix: Some(name("192.0.2.0/24")),
    };
    Summary {
        mode: Mode::Stable,
        scenario: name("test"),
        started_ms: NOW_MS,
        version: name("0.1.0"),
        kernel: name("6.1.0"),
        machine: name("x86_64"),
        server: Some(name("server-1")),
        experiment: None,
        networks: vec![network("wlan", NetworkKind::Wifi), network("cell", NetworkKind::Cellular)],
        groups: labels.iter().flat_map(|label| [group(label, "bulk"), group(label, "interactive")]).collect(),
        reachability: Vec::new(),
        handovers: Vec::new(),
        delay_pairs: Vec::new(),
        family_pairs: Vec::new(),
    }
}

pub(crate) fn checked(id: Uuid, content: &str, raw: Vec<u8>) -> Checked {
    let submission = Submission {
        schema: SCHEMA.to_owned(),
        id,
        agent: Uuid::from_u128(7),
        consent: Consent::Public,
        deletion_sha256: Digest::compute(b"token"),
        summary: summary(),
        raw: None,
    };
    Checked { submission, digest: Digest::compute(content.as_bytes()), raw }
}

pub(crate) fn group(submissions: Vec<Checked>, received_ms: u64) -> SubmissionGroup {
    let submitted =
        submissions.into_iter().map(|checked| Submitted::new(checked, received_ms, Source(7)).unwrap());
    SubmissionGroup { submissions: submitted.collect() }
}
