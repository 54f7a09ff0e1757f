//! Fields by their names.

/// Fields whose value identifies a person, a place or a device; it is removed, here and in every other text. Written
/// without separators, in lower case.
const PERSONAL: [&str; 25] = [
    "ssid",
    "bssid",
    "mac",
    "macaddress",
    "hostname",
    "node",
    "fqdn",
    "latitude",
    "longitude",
    "position",
    "location",
    "imei",
    "imsi",
    "iccid",
    "msisdn",
    "serial",
    "serialnumber",
    "machineid",
    "bootid",
    "user",
    "username",
    "login",
    "email",
    "home",
    "cwd",
];

/// The longest of them with separators.
const LONGEST: usize = 24;

/// Whether every value of a field is personal: `hostname`, `host_name`, `Host-Name`.
pub(super) fn is_personal(key: &str) -> bool {
    key.len() <= LONGEST
        && PERSONAL.iter().any(|personal| {
            let letters = key.bytes().filter(|byte| !matches!(byte, b'_' | b'-'));
            letters.map(|byte| byte.to_ascii_lowercase()).eq(personal.bytes())
        })
}

/// Whether this is the file of a scenario, with the name of its owner's home directory. These two are none.
pub(super) fn is_personal_path(key: &str, value: &str) -> bool {
    key == "origin" && !matches!(value, "builtin" | "command line")
}
