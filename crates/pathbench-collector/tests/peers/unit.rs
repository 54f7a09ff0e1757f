//! The systemd unit of the collector.

use crate::support::process::run;

pathbench_testkit::tests!(["systemd-analyze"] => the_shipped_unit_is_hardened_and_its_options_exist);

fn the_shipped_unit_is_hardened_and_its_options_exist() {
    let mut words = pathbench_testkit::command_of_unit(
        "pathbench-collector.service",
        &[
            "DynamicUser=yes",
            "CapabilityBoundingSet=\n",
            // As the default of --dir for root.
            "StateDirectory=pathbench-collector\n",
        ],
    );
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    assert!(help.contains("/var/lib/pathbench-collector for root"), "{help}");
    // The first unknown option is the only one that is reported.
    words.push("--unknown".to_owned());
    let output = run(&words);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && message.contains("'--unknown'"), "{message}");
}
