//! Remedies in the language of the program that manages an endpoint: `NetworkManager` or mptcpd. A change by ip-mptcp(8)
//! beside them lasts until they configure the interface again.

use pathbench_host::managers::MptcpdFlags;
use pathbench_host::mptcp::EndpointFlags;

/// The first version of `NetworkManager` with endpoints.
const ENDPOINTS_SINCE: (u32, u32) = (1, 40);
/// The first release of `NetworkManager` with the flag `laminar`.
const LAMINAR_SINCE: (u32, u32) = (1, 56);
/// Documentation of the settings: mptcpd(8).
const MPTCPD_SETTINGS: &str = "/etc/mptcpd/mptcpd.conf";
/// With them mptcpd adds endpoints for the addresses that are there when it starts.
const NOTIFICATION: [&str; 3] = ["existing", "skip_link_local", "skip_loopback"];

/// An interface that `NetworkManager` manages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connection<'a> {
    pub(crate) interface: &'a str,
    /// UUID of the active connection.
    pub(crate) uuid: Option<&'a str>,
    pub(crate) version: Option<(u32, u32)>,
    /// Whether the interface has a default route of the address's family.
    pub(crate) has_default_route: bool,
}

/// Whether this version of `NetworkManager`, an unknown one included, manages endpoints.
pub(crate) fn has_endpoints(version: Option<(u32, u32)>) -> bool {
    version.is_none_or(|version| version >= ENDPOINTS_SINCE)
}

impl Connection<'_> {
    /// The command that gives the endpoints of the interface these flags. They change within about a second.
    pub(crate) fn endpoint_step(&self, flags: EndpointFlags) -> String {
        let words = flags.to_string();
        let has_laminar = self.version.is_some_and(|version| version >= LAMINAR_SINCE);
        let known = words.split_whitespace().filter(|word| *word != "laminar" || has_laminar);
        let route = (!self.has_default_route).then_some("also-without-default-route");
        let flags: Vec<&str> = ["enabled"].into_iter().chain(known).chain(route).collect();
        self.step(&format!("connection.mptcp-flags {}", flags.join(",")))
    }

    /// The command that changes a property of the connection, and the interface at once.
    pub(crate) fn step(&self, change: &str) -> String {
        let name = self.interface;
        let connection = match self.uuid {
            Some(uuid) => uuid.to_owned(),
            None => format!("\"$(nmcli -g GENERAL.CON-UUID device show {name})\""),
        };
        format!("nmcli connection modify {connection} {change} && nmcli device reapply {name}")
    }
}

/// The commands after which mptcpd adds endpoints with `wanted` for the addresses of this host; empty if its settings say so
/// already.
pub(crate) fn mptcpd_steps(in_force: &MptcpdFlags, wanted: EndpointFlags) -> Vec<String> {
    let mut endpoint = in_force.endpoint.clone();
    let words = wanted.to_string();
    endpoint.extend(words.split_whitespace().filter(|word| *word != "laminar").map(str::to_owned));
    let mut notification = in_force.notification.clone();
    notification.extend(NOTIFICATION.map(str::to_owned));
    let lines: Vec<String> = [
        ("addr-flags", endpoint, &in_force.endpoint),
        ("notify-flags", notification, &in_force.notification),
    ]
    .into_iter()
    .filter_map(|(key, flags, before)| {
        let mut unique: Vec<&str> = Vec::new();
        for flag in &flags {
            if !unique.contains(&flag.as_str()) {
                unique.push(flag);
            }
        }
        (unique.len() > before.len()).then(|| format!("{key}={}", unique.join(",")))
    })
    .collect();
    if lines.is_empty() {
        return Vec::new();
    }
    // Keys follow the only section, [core].
    let keys = lines.iter().filter_map(|line| line.split('=').next());
    let delete = keys.map(|key| format!("-e '/^{key}=/d'")).collect::<Vec<_>>().join(" ");
    vec![
        format!(
            "sed -i {delete} {MPTCPD_SETTINGS} && printf '{}\\n' >> {MPTCPD_SETTINGS}",
            lines.join("\\n")
        ),
        "systemctl restart mptcp.service".to_owned(),
    ]
}
