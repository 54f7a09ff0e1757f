//! Signals of a connection: what its ends say about addresses, priorities and failures.

use super::options::{AddAddress, MptcpOption};
use std::net::{IpAddr, SocketAddr};

/// Most signals that are kept for a connection.
pub const SIGNALS: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    pub time_ns: u64,
    /// Index of the connection's end that sent it.
    pub side: usize,
    /// Key of the subflow within the analysis.
    pub subflow: u32,
    pub kind: &'static str,
    pub address_ids: Vec<u8>,
    pub address: Option<String>,
    pub detail: Option<String>,
    /// How often it was sent again.
    pub repeats: u32,
}

impl Signal {
    /// The signal in an option; `None` for options that are no signal.
    pub fn from_option(option: &MptcpOption, time_ns: u64, side: usize, subflow: u32) -> Option<Self> {
        let mut signal = Self {
            time_ns,
            side,
            subflow,
            kind: "",
            address_ids: Vec::new(),
            address: None,
            detail: None,
            repeats: 0,
        };
        match option {
            MptcpOption::AddAddress(add) => {
                signal.kind = if add.echo { "add-addr-echo" } else { "add-addr" };
                signal.address_ids.push(add.address_id);
                signal.address = Some(address(add));
            }
            MptcpOption::RemoveAddress(remove) => {
                signal.kind = "remove-addr";
                signal.address_ids.extend_from_slice(remove.ids());
            }
            MptcpOption::Priority { backup, address_id } => {
                signal.kind = "mp-prio";
                signal.address_ids.extend(*address_id);
                signal.detail = Some(if *backup { "backup" } else { "regular" }.to_owned());
            }
            MptcpOption::Fail { data_sequence } => {
                signal.kind = "mp-fail";
                signal.detail = Some(format!("data sequence number {data_sequence:#018x}"));
            }
            MptcpOption::FastClose { .. } => signal.kind = "fastclose",
            MptcpOption::Reset { transient, reason } => {
                signal.kind = "mp-tcprst";
                let text = reset_reason(*reason);
                signal.detail = Some(if *transient { format!("{text}, transient") } else { text.to_owned() });
            }
            _ => return None,
        }
        Some(signal)
    }
}

fn address(add: &AddAddress) -> String {
    match add.endpoint.port {
        0 => IpAddr::from(add.endpoint.address).to_string(),
        _ => SocketAddr::from(add.endpoint).to_string(),
    }
}

/// RFC 8684, section 3.6.
pub const fn reset_reason(code: u8) -> &'static str {
    match code {
        0 => "unspecified error",
        1 => "MPTCP-specific error",
        2 => "lack of resources",
        3 => "administratively prohibited",
        4 => "too much outstanding data",
        5 => "unacceptable performance",
        6 => "middlebox interference",
        _ => "reserved reason",
    }
}
