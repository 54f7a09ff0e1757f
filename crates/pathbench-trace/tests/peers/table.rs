//! The captures of the repository beside tshark.

pathbench_testkit::tests!(["tshark"] => the_recorded_captures_have_the_bytes_and_packets_of_tshark;);

fn the_recorded_captures_have_the_bytes_and_packets_of_tshark() {}
