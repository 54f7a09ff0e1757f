//! The table of refused options and its documentation.

use pathbench_host::seccomp::OptionName;
use pathbench_supervisor::options::{REFUSED, name};

/// The levels of [`REFUSED`], with their names in C.
const LEVELS: [(i32, &str); 4] = [
    (libc::SOL_SOCKET, "SOL_SOCKET"),
    (libc::SOL_TCP, "SOL_TCP"),
    (libc::SOL_IP, "SOL_IP"),
    (libc::SOL_IPV6, "SOL_IPV6"),
];

/// The table of `docs/run.md`.
fn table() -> String {
    let row = |(level, name): &(i32, &str)| {
        let of_level = REFUSED.iter().filter(|(own, _, _)| own == level);
        let names: Vec<String> = of_level.map(|(_, _, option)| format!("`{option}`")).collect();
        format!("| `{name}` | {} |\n", names.join(", "))
    };
    let rows: Vec<String> = LEVELS.iter().map(row).collect();
    format!("| level | options |\n|---|---|\n{}", rows.concat())
}

#[test]
fn the_documentation_lists_the_refused_options() {
    let text = std::fs::read_to_string(pathbench_testkit::checkout().join("docs/run.md")).unwrap();
    assert!(text.contains(&table()), "docs/run.md lacks this table:\n{}", table());
}

#[test]
fn an_option_has_the_name_of_the_headers() {
    assert_eq!(name(OptionName { level: libc::SOL_TCP, name: libc::TCP_QUICKACK }), "TCP_QUICKACK");
    assert_eq!(name(OptionName { level: 6, name: 999 }), "6/999");
}
