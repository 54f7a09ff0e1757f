//! The systemd units of packaging/.

use crate::support::Workplace;
use pathbench_testkit::command_of_unit;

pathbench_testkit::tests!(
    ["systemd-analyze"] => the_unit_of_the_agent_is_hardened_and_its_options_exist,
    the_unit_of_the_server_is_hardened_and_its_options_exist
);

fn the_unit_of_the_agent_is_hardened_and_its_options_exist() {
    let words = command_of_unit("pathbench-agent.service", &["StateDirectory=pathbench"]);
    let work = Workplace::new();
    // In place of what the unit finds on the host of its agent. Only the owner's decision is missing.
    let nowhere = work.path().join("collector.toml").display().to_string();
    let words = words.iter().map(|word| match word.as_str() {
        "${COLLECTOR}" => "https://c.example",
        "/etc/pathbench/collector.toml" => &nowhere,
        other => other,
    });
    work.run(&words.collect::<Vec<_>>()).expect(2).reports(&["consent", &nowhere]);
}

fn the_unit_of_the_server_is_hardened_and_its_options_exist() {
    let words = command_of_unit("pathbench-serve.service", &["DynamicUser=yes", "CapabilityBoundingSet=\n"]);
    // Only the key's file is missing.
    Workplace::new().run(&words).expect(2).reports(&["token"]);
}
