//! Rules of this host that remove MPTCP.

use crate::facts::HostFacts;
use crate::finding::{Finding, FindingId};
use pathbench_host::firewall::rules::{FirewallRules, MptcpAction, MptcpRule};

pub(super) fn findings(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let id = FindingId::FirewallMptcp;
    match &facts.firewall {
        Ok(rules) if rules.mptcp.is_empty() => findings.push(Finding::ok(id, summary(rules))),
        Ok(rules) => findings.extend(rules.mptcp.iter().map(removes)),
        Err(reason) => {
            findings.push(Finding::not_examined(id, reason).with_step("Run it as root (CAP_NET_ADMIN)."));
        }
    }
    match &facts.legacy_tables {
        Ok(tables) if tables.is_empty() => {}
        Ok(tables) => findings.push(
            Finding::not_examined(
                FindingId::FirewallLegacy,
                format!("legacy iptables has tables ({}), whose rules were not read", tables.join(", ")),
            )
            .with_step("iptables-legacy-save | grep -E 'tcp-option 30|TCPOPTSTRIP'"),
        ),
        Err(reason) => {
            findings
                .push(Finding::not_examined(FindingId::FirewallLegacy, reason).with_step("Run it as root."));
        }
    }
    findings
}

fn summary(rules: &FirewallRules) -> String {
    let chains = match rules.dropping_chains.as_slice() {
        [] => String::new(),
        chains => format!("; policy drop in {}", chains.join(", ")),
    };
    match rules.rules {
        0 => format!("nf_tables has no rules{chains}"),
        count => format!("{count} nf_tables rules, none of which selects the MPTCP option{chains}"),
    }
}

fn removes(rule: &MptcpRule) -> Finding {
    let option = match rule.subtype {
        None => "the MPTCP option".to_owned(),
        Some(subtype) => format!("the MPTCP option {}", name(subtype)),
    };
    let does = match rule.action {
        MptcpAction::Strip => format!("removes {option}"),
        MptcpAction::Drop => format!("drops packets with {option}"),
        MptcpAction::Reject => format!("rejects packets with {option}"),
    };
    let meaning = match rule.subtype {
        None | Some(0) => {
            "Connections whose packets pass this chain fall back to TCP, or are not established."
        }
        Some(1) => "Joins whose packets pass this chain fail: connections have their initial subflow only.",
        Some(2) => {
            "Subflows whose packets pass this chain are reset, and a connection with one path stalls or falls back."
        }
        Some(_) => "The path manager of the peer or of this host does not receive this option.",
    };
    let (id, found) =
        (FindingId::FirewallMptcp, format!("rule {} of the chain {} {does}", rule.handle, rule.chain));
    let finding = if rule.is_forwarding {
        let forwarded = "The rule concerns the connections that this host forwards: of containers, virtual machines or a network.";
        Finding::advice(id, found, format!("{forwarded} {meaning}"))
    } else {
        Finding::problem(id, found, meaning)
    };
    finding
        .with_subject(rule.chain.clone())
        .with_step(format!("nft delete rule {} handle {}", rule.chain, rule.handle))
}

/// RFC 8684, section 8.
fn name(subtype: u8) -> String {
    let names = [
        "MP_CAPABLE",
        "MP_JOIN",
        "DSS",
        "ADD_ADDR",
        "REMOVE_ADDR",
        "MP_PRIO",
        "MP_FAIL",
        "MP_FASTCLOSE",
        "MP_TCPRST",
    ];
    names.get(usize::from(subtype)).map_or_else(|| format!("of subtype {subtype}"), |name| (*name).to_owned())
}
