//! The commands of `ip mptcp` (ip-mptcp(8)).

use super::{EndpointFlags, MptcpEndpoint, MptcpLimits};

pub fn set_limits(limits: MptcpLimits) -> String {
    format!("ip mptcp limits set subflows {} add_addr_accepted {}", limits.subflows, limits.add_addr_accepted)
}

/// `device`: the name of the endpoint's interface, if it is bound to one.
pub fn add_endpoint(endpoint: &MptcpEndpoint, device: Option<&str>) -> String {
    let mut words = vec![format!("ip mptcp endpoint add {}", endpoint.address)];
    words.extend(endpoint.port.map(|port| format!("port {port}")));
    words.extend(device.map(|name| format!("dev {name}")));
    words.extend(endpoint.id.map(|id| format!("id {id}")));
    if endpoint.flags != EndpointFlags::default() {
        words.push(endpoint.flags.to_string());
    }
    words.join(" ")
}

/// `ip` deletes by id only. Without one, the shell looks up the id that the kernel has assigned.
pub fn delete_endpoint(endpoint: &MptcpEndpoint) -> String {
    let id = endpoint.id.map_or_else(
        || format!(r"$(ip mptcp endpoint show | sed -n 's/^{} id \([0-9]*\) .*/\1/p')", endpoint.address),
        |id| id.to_string(),
    );
    format!("ip mptcp endpoint delete id {id}")
}

/// Changes the flags `backup` and `fullmesh` of `endpoint` from `from` to `to`; the kernel changes no others.
pub fn change_endpoint(endpoint: &MptcpEndpoint, from: EndpointFlags, to: EndpointFlags) -> String {
    let selected = match endpoint.id {
        Some(id) => format!("id {id}"),
        None => endpoint.address.to_string(),
    };
    let word = |name: &str, set| if set { name.to_owned() } else { format!("no{name}") };
    let mut words = vec![format!("ip mptcp endpoint change {selected}")];
    if from.backup != to.backup {
        words.push(word("backup", to.backup));
    }
    if from.fullmesh != to.fullmesh {
        words.push(word("fullmesh", to.fullmesh));
    }
    words.join(" ")
}
