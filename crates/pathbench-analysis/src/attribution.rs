//! Which path the bytes of a subflow took.
//!
//! A path is where packets left, not what their address says: without a rule for the source address, the subflows of two
//! addresses leave by one interface. The client's route lookup shows where its packets leave. Where the server's packets
//! arrive depends on the server's routes and on NAT; the bytes that each interface (in a lab: its link) received decide.

use crate::mptcp_setup::LocalSetup;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The name of the loopback interface: packets to an address of this host leave by it, from every source.
const LOOPBACK: &str = "lo";

/// A subflow as its client sees it. Paths are named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubflowSeen {
    /// The path of the interface that has its local address; the address itself where none has it.
    pub owner: String,
    /// The path of the interface by which its packets leave, where known.
    pub left_by: Option<String>,
    /// Payload bytes that it received.
    pub received_bytes: u64,
}

/// The paths of a subflow's bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubflowPath {
    /// Of the bytes that the client sent.
    pub upload: String,
    /// Of the bytes that the client received.
    pub download: String,
    /// No interface received the bytes: `download` is the address's.
    pub is_download_unknown: bool,
}

/// Bytes that the link or interface of a path carried during a run, headers included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CarriedBytes {
    pub from_client: u64,
    pub to_client: u64,
    /// Whether no other packets count, as on a link of a lab.
    pub only_of_run: bool,
}

/// An address whose packets left by the interface of another path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stray {
    pub address: Option<IpAddr>,
    /// The server's address.
    pub remote: Option<IpAddr>,
    /// The path of the address.
    pub path: String,
    pub left_by: String,
    /// The commands that make the packets leave by `path`, to be run as root in this order; empty where unknown.
    pub remedy: Vec<String>,
}

impl Stray {
    /// The stray of a subflow between these addresses; `None` if its packets leave by its own path.
    pub fn from_subflow(
        seen: &SubflowSeen,
        (local, remote): (IpAddr, IpAddr),
        setup: Option<&LocalSetup>,
    ) -> Option<Self> {
        let left_by = seen.left_by.clone().filter(|name| *name != seen.owner && name != LOOPBACK)?;
        let remedy = setup.and_then(|setup| setup.source_routes.get(&local)).cloned().unwrap_or_default();
        Some(Self { address: Some(local), remote: Some(remote), path: seen.owner.clone(), left_by, remedy })
    }

    /// The fault in words.
    pub fn words(&self) -> String {
        let address = self.address.map_or_else(|| "its address".to_owned(), |address| address.to_string());
        let to = self.remote.map(|remote| format!(" to {remote}")).unwrap_or_default();
        format!(
            "packets from {address} ({}){to} leave by {}, because no routing rule for that source address selects {0}",
            self.path, self.left_by
        )
    }

    /// The remedy in words, with the commands that are known.
    pub fn remedy_words(&self) -> String {
        if !self.remedy.is_empty() {
            return format!("as root: {}", self.remedy.join("; "));
        }
        let address = self.address.map_or_else(|| "ADDRESS".to_owned(), |address| address.to_string());
        format!(
            "as root: ip route add default via ROUTER dev INTERFACE table N; ip rule add from {address} table N (or `dev` in \
             its MPTCP endpoint)"
        )
    }
}

/// The paths of all subflows of a run, in order. `carried`: by path, what its interface carried during the run; paths whose
/// counters are unknown are absent.
pub fn attribute(subflows: &[SubflowSeen], carried: &BTreeMap<String, CarriedBytes>) -> Vec<SubflowPath> {
    let mut received: BTreeMap<&str, u64> = BTreeMap::new();
    for subflow in subflows {
        let of_owner = received.entry(&subflow.owner).or_default();
        *of_owner = of_owner.saturating_add(subflow.received_bytes);
    }
    let own = |path: &str| received.get(path).copied().unwrap_or_default();
    // Half of the payload: counters and figures are not read at the same moment.
    let holds = |path: &str, bytes: u64| carried.get(path).is_some_and(|known| known.to_client >= bytes / 2);
    let download = |subflow: &SubflowSeen| {
        let left_by = subflow.left_by.as_ref().unwrap_or(&subflow.owner);
        let bytes = own(&subflow.owner);
        if bytes == 0 || !carried.contains_key(&subflow.owner) {
            return (left_by.clone(), false);
        }
        if holds(&subflow.owner, bytes) {
            return (subflow.owner.clone(), false);
        }
        let others = carried.keys().filter(|path| **path != subflow.owner);
        let holds_both = |path: &&String| holds(path, own(path).saturating_add(bytes));
        match std::iter::once(left_by).filter(|path| **path != subflow.owner).chain(others).find(holds_both) {
            Some(other) => (other.clone(), false),
            None => (subflow.owner.clone(), true),
        }
    };
    let path = |subflow: &SubflowSeen| {
        let (download, is_download_unknown) = download(subflow);
        let upload = subflow.left_by.clone().unwrap_or_else(|| subflow.owner.clone());
        SubflowPath { upload, download, is_download_unknown }
    };
    subflows.iter().map(path).collect()
}
