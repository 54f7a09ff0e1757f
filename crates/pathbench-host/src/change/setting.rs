//! The kernel settings that plans change. A journal with any other setting is refused.

/// MPTCP sockets.
pub const MPTCP_ENABLED: &str = "net/mptcp/enabled";
/// IPv4 settings of one interface.
pub const OF_INTERFACE: [&str; 3] = ["rp_filter", "arp_ignore", "arp_announce"];

/// IFNAMSIZ without the final null byte.
const LONGEST_INTERFACE_NAME: usize = 15;
/// A value of these settings is a small number.
const LONGEST_VALUE: usize = 4;

/// The key of an IPv4 setting of an interface, or of `all`.
pub fn interface_key(interface: &str, name: &str) -> String {
    format!("net/ipv4/conf/{interface}/{name}")
}

/// The command that sets `key`, which has slashes. Names without dots are written with dots, as usual.
pub fn command(key: &str, value: &str) -> String {
    let key = if key.contains('/') && !key.contains('.') { key.replace('/', ".") } else { key.to_owned() };
    format!("sysctl -w {key}={value}")
}

/// Whether a plan can contain this setting; keys have slashes.
pub(super) fn is_changed_by_plans(key: &str) -> bool {
    let of_interface = key.strip_prefix("net/ipv4/conf/").and_then(|rest| rest.split_once('/'));
    key == MPTCP_ENABLED
        || of_interface
            .is_some_and(|(interface, name)| OF_INTERFACE.contains(&name) && is_interface(interface))
}

/// As `dev_valid_name` of the kernel; `all` and `default` are no interfaces.
fn is_interface(name: &str) -> bool {
    (1..=LONGEST_INTERFACE_NAME).contains(&name.len())
        && !matches!(name, "." | ".." | "all" | "default")
        && name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':'))
}

pub(super) fn is_value(value: &str) -> bool {
    (1..=LONGEST_VALUE).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit())
}
