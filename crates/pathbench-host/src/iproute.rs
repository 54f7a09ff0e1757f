//! The installed ip(8), in whose language commands for users are.

use crate::nmcli::answer;
use std::process::Command;

/// Whether `ip mptcp` knows the endpoint flag `laminar`; `None` without an `ip` that knows `mptcp`.
pub fn knows_laminar() -> Option<bool> {
    let (_, usage) = answer(Command::new("ip").args(["mptcp", "help"]), |child| child.stderr.take())?;
    parse_usage(&usage)
}

fn parse_usage(usage: &str) -> Option<bool> {
    usage.contains("mptcp endpoint add").then(|| usage.contains("laminar"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_ip_names_its_flags() {
        let usage = "Usage:\tip mptcp endpoint add ADDRESS [ dev NAME ]\nFLAG  := [ signal | subflow | backup | fullmesh";
        assert_eq!(parse_usage(&format!("{usage} ]\n")), Some(false));
        assert_eq!(parse_usage(&format!("{usage} | laminar ]\n")), Some(true));
        assert_eq!(parse_usage("Object \"mptcp\" is unknown, try \"ip help\"."), None);
    }
}
