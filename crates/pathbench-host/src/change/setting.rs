//! The kernel settings that plans change. A journal with any other setting is refused.

use pathbench_record::network::AddressFamily;

/// MPTCP sockets.
pub const MPTCP_ENABLED: &str = "net/mptcp/enabled";
/// The path manager of new connections: by name (Linux 6.15), and by number.
pub const PATH_MANAGER: &str = "net/mptcp/path_manager";
pub const PM_TYPE: &str = "net/mptcp/pm_type";
/// IPv4 settings of one interface.
pub const OF_INTERFACE: [&str; 3] = ["rp_filter", "arp_ignore", "arp_announce"];

/// IFNAMSIZ without the final null byte.
const LONGEST_INTERFACE_NAME: usize = 15;
/// A value of these settings is a small number.
const LONGEST_VALUE: usize = 4;
/// `MPTCP_PM_NAME_MAX` of `net/mptcp/protocol.h`, with the final null byte.
const LONGEST_PATH_MANAGER: usize = 15;
const LINKDOWN: &str = "ignore_routes_with_linkdown";

/// The key of an IPv4 setting of an interface, or of `all`.
pub fn interface_key(interface: &str, name: &str) -> String {
    format!("net/ipv4/conf/{interface}/{name}")
}

/// The command that sets `key`, which has slashes. Names without dots are written with dots, as usual.
pub fn command(key: &str, value: &str) -> String {
    let key = if key.contains('/') && !key.contains('.') { key.replace('/', ".") } else { key.to_owned() };
    format!("sysctl -w {key}={value}")
}

/// The key of the setting by which the kernel ignores routes over an interface without a carrier.
pub fn linkdown_key(interface: &str, family: AddressFamily) -> String {
    let version = if family == AddressFamily::Ipv4 { "ipv4" } else { "ipv6" };
    format!("net/{version}/conf/{interface}/{LINKDOWN}")
}

/// Whether a plan can contain this setting; keys have slashes.
pub(super) fn is_changed_by_plans(key: &str) -> bool {
    let below = |prefix| key.strip_prefix(prefix).and_then(|rest: &str| rest.split_once('/'));
    let of_ipv4 =
        below("net/ipv4/conf/").filter(|(_, name)| OF_INTERFACE.contains(name) || *name == LINKDOWN);
    let of_interface = of_ipv4.or(below("net/ipv6/conf/").filter(|(_, name)| *name == LINKDOWN));
    [MPTCP_ENABLED, PATH_MANAGER, PM_TYPE].contains(&key)
        || of_interface.is_some_and(|(interface, _)| is_interface(interface))
}

/// As `dev_valid_name` of the kernel; `all` and `default` are no interfaces.
fn is_interface(name: &str) -> bool {
    (1..=LONGEST_INTERFACE_NAME).contains(&name.len())
        && !matches!(name, "." | ".." | "all" | "default")
        && name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':'))
}

/// Whether a plan can contain this value of the setting.
pub(super) fn is_value(key: &str, value: &str) -> bool {
    if key == PATH_MANAGER {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        return (1..=LONGEST_PATH_MANAGER).contains(&value.len()) && value.bytes().all(is_word);
    }
    (1..=LONGEST_VALUE).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit())
}
