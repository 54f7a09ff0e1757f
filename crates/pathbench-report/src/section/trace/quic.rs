//! Facts about a QUIC connection.

use super::cell::of_both;
use crate::quantity::duration;
use pathbench_record::trace::TracedQuic;

const MOST_IDS: usize = 3;

pub(super) fn facts(quic: &TracedQuic) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(quic.server_name.as_ref().map(|name| format!("SNI {name}")));
    if !quic.alpn.is_empty() {
        facts.push(format!("ALPN {}", quic.alpn.join(", ")));
    }
    facts.extend(quic.retry.then(|| "Retry".to_owned()));
    facts.extend(quic.version_negotiation.then(|| "Version Negotiation".to_owned()));
    facts.extend(quic.handshake_rtt_ms.map(|ms| format!("handshake RTT {}", duration(ms))));
    let packets = [
        ("Initial", quic.initial_packets),
        ("0-RTT", quic.zero_rtt_packets),
        ("Handshake", quic.handshake_packets),
        ("1-RTT", quic.one_rtt_packets),
    ];
    let packets = packets.into_iter().filter(|(_, count)| *count > 0);
    let packets: Vec<String> = packets.map(|(name, count)| format!("{count} {name}")).collect();
    if !packets.is_empty() {
        facts.push(format!("packets {}", packets.join(", ")));
    }
    if quic.decrypted {
        facts.push("1-RTT packets decrypted".to_owned());
    }
    let undecrypted = quic.undecrypted_packets.filter(|count| *count > 0);
    facts.extend(undecrypted.map(|count| format!("{count} packets not decrypted")));
    let updates = quic.key_updates.filter(|count| *count > 0);
    facts.extend(updates.map(|count| format!("{count} key updates")));
    facts.extend(of_both("initial_max_path_id", quic.client_max_path_id, quic.server_max_path_id));
    for (end, ids) in [("client", &quic.client_connection_ids), ("server", &quic.server_connection_ids)] {
        if !ids.is_empty() {
            let shown = ids.iter().take(MOST_IDS).map(|id| if id.is_empty() { "of length 0" } else { id });
            let shown: Vec<&str> = shown.collect();
            let more = ids.len().saturating_sub(MOST_IDS);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            facts.push(format!("CIDs of the {end} {}{more}", shown.join(", ")));
        }
    }
    facts
}

/// The version in words, behind its number.
pub(super) fn version_name(version: &str) -> Option<String> {
    let number = u32::from_str_radix(version.strip_prefix("0x")?, 16).ok()?;
    let name = match number {
        0x6b33_43cf => "QUIC version 2".to_owned(),
        0xff00_0000..=0xff00_0022 => format!("draft-{}", number & 0xff),
        0xface_b000..=0xface_b00f => "mvfst".to_owned(),
        0x5043_5130 | 0x5043_5131 => "picoquic".to_owned(),
        0x5130_3530 | 0x5430_3530 | 0x5430_3531 => {
            format!("Google QUIC {}", String::from_utf8_lossy(&number.to_be_bytes()))
        }
        _ if number & 0x0f0f_0f0f == 0x0a0a_0a0a => "reserved".to_owned(),
        _ => return None,
    };
    Some(name)
}
