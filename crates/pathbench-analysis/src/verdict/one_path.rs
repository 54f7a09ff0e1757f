//! Why a connection with negotiated MPTCP used only one path.

use super::input::{PathDelivery, VerdictInput, is_used, share};
use crate::mptcp_setup::{LocalSetup, PEER_LIMIT};
use pathbench_record::kernel_event::MptcpEvent;
use pathbench_record::sample::{PathFigures, PathState};
use pathbench_record::stage::SubflowStage;
use std::io;

pub(super) fn reason(input: &VerdictInput, total: u64) -> String {
    if total == 0 {
        let nothing = "MPTCP was negotiated, but no byte was delivered over any path";
        let of_path =
            |path: &PathDelivery| Some(format!("path {}: {}", path.name, input.diagnosis(&path.name)?));
        let found: Vec<String> =
            std::iter::once(nothing.to_owned()).chain(input.paths.iter().filter_map(of_path)).collect();
        return found.join("; ");
    }
    if !input.strays.is_empty() && input.subflows_total.is_some_and(|subflows| subflows >= 2) {
        return one_interface(input);
    }
    let idle: Vec<&PathDelivery> = input.paths.iter().filter(|path| !is_used(path, total)).collect();
    if !idle.is_empty() {
        let found: Vec<String> = idle.iter().map(|path| idle_path(input, path, total)).collect();
        return found.join("; ");
    }
    if input.subflows_total.is_some_and(|subflows| subflows >= 2) {
        let names: Vec<&str> = input.paths.iter().map(|path| path.name.as_str()).collect();
        return format!(
            "MPTCP was negotiated and {} subflows were opened, but all of them on the one path {}",
            input.subflows_total.unwrap_or_default(),
            names.join(", ")
        );
    }
    let mut found = input.causes.clone();
    found.extend(set_up(input));
    found.extend(joins(input));
    if found.is_empty() {
        found.push(nothing_known(input));
    }
    let attempted = match (input.subflows_total, input.subflows_attempted) {
        (Some(opened), Some(attempted)) if attempted > opened => {
            format!(" ({opened} of {attempted} attempted subflows)")
        }
        _ => String::new(),
    };
    format!("MPTCP was negotiated, but only one path was opened{attempted}: {}", found.join("; "))
}

/// The subflows of several addresses left by one interface.
fn one_interface(input: &VerdictInput) -> String {
    let mut left_by: Vec<&str> = input.strays.iter().map(|stray| stray.left_by.as_str()).collect();
    left_by.dedup();
    let found: Vec<String> =
        input.strays.iter().map(|stray| format!("{}; {}", stray.words(), stray.remedy_words())).collect();
    format!(
        "MPTCP was negotiated and {} subflows were opened, but they are one path, {}: {}",
        input.subflows_total.unwrap_or_default(),
        left_by.join(", "),
        found.join("; ")
    )
}

/// Why the join of a path did not open it; `None` for an opened one.
fn unopened_path(input: &VerdictInput, path: &PathDelivery) -> Option<String> {
    let name = &path.name;
    let fault = match path.stage()? {
        SubflowStage::Attempted => {
            "its handshake was never completed: no answer to its SYN arrived, so its packets or the answers are dropped"
        }
        SubflowStage::Answered => {
            "its SYN was answered without MPTCP: the peer or a firewall rejected it with RST, or a middlebox strips TCP \
             option 30 (MP_JOIN)"
        }
        SubflowStage::Negotiated => {
            "the peer agreed to the join, and the handshake was not completed: the third packet lost TCP option 30 on the \
             path, or the peer rejected it"
        }
        SubflowStage::Opened | SubflowStage::Carried => return None,
    };
    let known: Vec<String> =
        input.causes.iter().cloned().chain(joins(input)).map(|words| format!("; {words}")).collect();
    Some(format!("a subflow on path {name} was attempted and not opened: {fault}{}", known.concat()))
}

/// Why a path carried almost nothing.
fn idle_path(input: &VerdictInput, path: &PathDelivery, total: u64) -> String {
    let name = &path.name;
    if let Some(unopened) = unopened_path(input, path) {
        return unopened;
    }
    let carried = format!("path {name} was opened but carried {} of the bytes", share(path, total));
    let Some(last) = &path.last else { return format!("{carried}, less than the 1 % that counts as used") };
    if let Some(diagnosis) = input.diagnosis(name) {
        return format!("{carried}: {diagnosis}");
    }
    if last.backup == Some(true) {
        return format!("{carried}: it is marked backup, which is used only while no other path is alive");
    }
    if is_stuck(last) {
        return format!(
            "{carried}: data sent on it is never acknowledged ({} retransmission timeouts in a row, MSS {} \
             bytes, path MTU {} bytes in the kernel). Either the path is dead, or it drops large packets \
             silently (an MTU black hole): set the route's `mtu` or net.ipv4.tcp_mtu_probing=2",
            last.backoff, last.mss_bytes, last.pmtu_bytes
        );
    }
    if last.state == PathState::Closed {
        let failure = input
            .join_failures
            .iter()
            .find(|failure| failure.local.is_none_or(|local| local.ip() == last.local.ip()))
            .map(|failure| format!(": {}", failure_words(failure)))
            .unwrap_or_default();
        return format!("{carried} before it was closed{failure}");
    }
    if input.any_rose(&["SubflowStale"]) {
        return format!(
            "{carried}: the kernel marked it stale (no progress over several retransmission timeouts)"
        );
    }
    format!(
        "{carried}, less than the 1 % that counts as used: the transfer was too short or too slow to need it, or \
         the buffers too small for both paths"
    )
}

/// Data is sent but not acknowledged, and the retransmission timer backs off (`bytes_acked` flat, `backoff` rising).
fn is_stuck(last: &PathFigures) -> bool {
    last.backoff > 0 && last.in_flight_bytes > 0 && last.bytes_acked.saturating_mul(10) < last.bytes_sent
}

fn set_up(input: &VerdictInput) -> Vec<String> {
    let mut found = Vec::new();
    let Some(setup) = &input.setup else { return found };
    if let Some(remedy) = &setup.other_path_manager {
        found.push(format!(
            "a path manager in user space is in force on this host, and the kernel opens no subflow from endpoints; without a \
             daemon such as mptcpd, as root: {remedy}"
        ));
        return found;
    }
    if setup.subflow_limit == 0 {
        let remedy = setup.subflow_limit_remedy();
        found.push(format!("the limit of additional subflows is 0 on this host; as root: {remedy}"));
    }
    if setup.peer_subflow_limit == Some(0) {
        found
            .push(format!("the limit of additional subflows is 0 on the peer; there, as root: {PEER_LIMIT}"));
    }
    if input.rose("AddAddr") && setup.add_addr_accepted_limit == 0 {
        let remedy = setup.announced_address_remedy().unwrap_or_default();
        found.push(format!(
            "the peer announced an address, and the limit of accepted addresses is 0 on this host; as root: {remedy}"
        ));
    }
    if let Some(address) =
        setup.address_of_other_family().filter(|_| setup.further_addresses().next().is_none())
    {
        found.push(format!(
            "the further address {address} is IPv6, and a connection over IPv4 has no subflows over IPv6: connect to an IPv6 \
             address of the peer"
        ));
    }
    // Without a further address an endpoint is the last suspect.
    if found.is_empty() || setup.further_addresses().next().is_some() {
        found.extend(missing_endpoints(setup));
    }
    found
}

fn missing_endpoints(setup: &LocalSetup) -> Option<String> {
    if setup.endpoints.iter().any(|address| Some(*address) != setup.initial) {
        return None;
    }
    let second: Vec<String> = setup.further_addresses().map(|address| address.to_string()).collect();
    Some(match setup.further_addresses().next() {
        Some(address) => format!(
            "no endpoint for {}; as root: {}",
            second.join(", "),
            setup.endpoint_remedy(address, None)
        ),
        None => "no endpoint for a second address on this host; as root: ip mptcp endpoint add ADDRESS dev \
                 INTERFACE subflow"
            .to_owned(),
    })
}

pub(crate) fn joins(input: &VerdictInput) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |words: &str| found.push(words.to_owned());
    if input.rose("MPJoinSynTxBindErr") {
        add("an endpoint's address could not be bound: it is not (or no longer) an address of this host");
    }
    if input.rose("MPJoinSynTxConnectErr") {
        add(
            "no route from an endpoint's address to the peer: it takes a rule and a routing table for that source \
             address (ip rule add from ADDRESS table N), or `dev` in the endpoint",
        );
    }
    if input.rose("MPJoinSynTxCreatSkErr") {
        add("the kernel could not make a socket for another subflow");
    }
    if input.any_rose(&["MPJoinNoTokenFound"]) {
        add("a join reached a host without this connection (token not found): another host answers at \
             that address, or a load balancer sends the subflows to different hosts");
    }
    if input.any_rose(&["MPJoinRejected"]) {
        add(
            "a join was rejected by the peer: its limit of additional subflows is reached, or MPTCP is being closed there",
        );
    }
    if input.any_rose(&["MPJoinSynAckHMacFailure", "MPJoinAckHMacFailure"]) {
        add(
            "a join failed its authentication (HMAC): another host answers at that address, or something rewrites TCP options",
        );
    }
    found.extend(input.join_failures.iter().map(failure_words));
    if found.is_empty() && input.rose("MPJoinSynTx") && !input.rose("MPJoinSynAckRx") {
        found.push(
            "joins were sent, but the peer never agreed to one: the second path loses packets or TCP option 30, a \
             firewall rejects them, or nothing listens on the connection's port any more"
                .to_owned(),
        );
    }
    found
}

pub(crate) fn failure_words(failure: &MptcpEvent) -> String {
    let [local, remote] = [failure.local, failure.remote].map(|address| address.map(|address| address.ip()));
    let subflow = match (local, remote) {
        (Some(local), Some(remote)) => format!("the subflow {local} → {remote}"),
        (Some(local), None) => format!("the subflow from {local}"),
        (None, Some(remote)) => format!("the subflow to {remote}"),
        (None, None) => "a subflow".to_owned(),
    };
    if let Some(reason) = failure.reset_reason {
        return format!("{subflow} was reset by MPTCP: {}", reset_words(reason));
    }
    match failure.error.map(i32::from) {
        Some(libc::ECONNREFUSED | libc::ECONNRESET) => {
            format!("{subflow} was reset: the peer or a firewall on the path rejects the join")
        }
        Some(libc::ETIMEDOUT) => format!("{subflow} timed out: its packets or the answers are lost"),
        Some(errno @ (libc::ENETUNREACH | libc::EHOSTUNREACH)) => {
            format!("{subflow} has no route ({})", io::Error::from_raw_os_error(errno))
        }
        Some(errno) if errno != 0 => format!("{subflow} was closed: {}", io::Error::from_raw_os_error(errno)),
        _ => format!("{subflow} was closed without an error"),
    }
}

/// RFC 8684 section 3.6, `MPTCP_RST_*` in linux/mptcp.h.
fn reset_words(reason: u32) -> String {
    match reason {
        0 => "unspecified error".to_owned(),
        1 => "MPTCP-specific error (a malformed or missing option)".to_owned(),
        2 => "the other end lacks resources".to_owned(),
        3 => "administratively prohibited at the other end (its limits or path manager do not allow the subflow)".to_owned(),
        4 => "too much outstanding data".to_owned(),
        5 => "unacceptable performance".to_owned(),
        6 => "middlebox interference was detected".to_owned(),
        other => format!("reason {other}"),
    }
}

fn nothing_known(input: &VerdictInput) -> String {
    if input.setup.is_none() && input.counters.is_empty() && !input.peer_counters.is_empty() {
        return "the connecting end opened no further subflow: its endpoints, limits and paths decide"
            .to_owned();
    }
    if input.setup.is_some() && !input.rose("MPJoinSynTx") && !input.counters.is_empty() {
        return "no join was attempted although the set-up allows one: the transfer may have ended before it, or the \
                endpoint was added after the connection began"
            .to_owned();
    }
    "neither the set-up nor the counters of this host show the cause; `ip mptcp limits`, `ip mptcp endpoint` and \
     `ip mptcp monitor` show more"
        .to_owned()
}
