//! Why the initial path delayed or prevented the opening of a connection.

use super::input::{DiagnosisInput, SHORTEST_SILENCE_MS};
use super::{cause, remedy};
use pathbench_record::document::{DiagnosisKind, OpeningOutcome, OpeningRecord, PathDiagnosis};
use pathbench_record::network::ClientPath;
use pathbench_record::sample::Side;
use pathbench_record::text::duration_ms;

/// `None` for another path than the initial one, and for a connection that was opened within a second.
pub(super) fn explain(input: &DiagnosisInput<'_>, path: &ClientPath) -> Option<PathDiagnosis> {
    let opening = input.connection.opening.as_ref()?;
    if opening.path.as_deref() != Some(path.name.as_str()) {
        return None;
    }
    let signs = signs(input, opening)?;
    let because = match cause::event_before_connect(input, path) {
        Some(event) => format!("{signs}; {event}"),
        None => signs,
    };
    Some(PathDiagnosis {
        path: path.name.clone(),
        side: Side::Client,
        kind: DiagnosisKind::InitialPath,
        from_ms: None,
        to_ms: None,
        because,
        remedy: remedy::initial_path(input, path, opening.outcome),
    })
}

fn signs(input: &DiagnosisInput<'_>, opening: &OpeningRecord) -> Option<String> {
    let after = duration_ms(opening.after_ms);
    let sent = if input.transport.is_quic() {
        "QUIC's Initial packets".to_owned()
    } else {
        let again = input.connection.counters.get("TcpExt.TCPSynRetrans").copied().unwrap_or_default();
        if again > 0 { format!("the SYN and {again} retransmissions of it") } else { "the SYN".to_owned() }
    };
    match opening.outcome {
        OpeningOutcome::Timeout => {
            Some(format!("the initial path was silent: {sent} got no answer within {after}"))
        }
        OpeningOutcome::Refused => Some(format!(
            "the initial path refused the connection after {after}: its far end, or a firewall, answered with a reset"
        )),
        OpeningOutcome::NoRoute => {
            Some(format!("the initial path has no route to the server (after {after})"))
        }
        OpeningOutcome::Opened if opening.after_ms >= SHORTEST_SILENCE_MS => {
            Some(format!("the initial path answered only after {after}: {sent} were lost"))
        }
        OpeningOutcome::Opened | OpeningOutcome::Other => None,
    }
}
