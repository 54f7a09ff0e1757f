//! Tests without a kernel: scenario files, their mistakes and plans; order of runs; messages.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]
#![allow(clippy::disallowed_methods, reason = "tests open files by themselves")]

mod addressing;
mod agent;
mod as_installed;
mod assignment;
mod attempts;
mod before_connect;
mod calibration;
mod channel;
mod documentation;
mod emulated;
mod endings;
mod event_details;
mod expectations;
mod hops;
mod messages;
mod mistakes;
mod order;
mod recorded;
mod robustness;
mod shipped;
mod topology;

/// Each mistake in a line: file, line, key, problem and remedy.
fn in_lines(mistakes: &pathbench_lab::scenario::Mistakes) -> Vec<String> {
    let line = |mistake: &pathbench_lab::scenario::Mistake| {
        let line = mistake.line.map(|line| format!("{line}:")).unwrap_or_default();
        let key = if mistake.key.is_empty() { String::new() } else { format!(" {}:", mistake.key) };
        format!("{}:{line}{key} {}; {}", mistake.file, mistake.problem, mistake.remedy)
    };
    mistakes.0.iter().map(line).collect()
}

/// The time of an event after the first byte, in milliseconds.
fn at_ms(event: &pathbench_lab::scenario::EventPlan) -> u128 {
    event.at.since_first_byte().expect("an event after the first byte").as_millis()
}
