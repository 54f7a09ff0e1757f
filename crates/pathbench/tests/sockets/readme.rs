//! The commands of README.md, with their options and values, are accepted by the program.

use crate::support::{binary, finish};
use std::process::Command;

const TEXT: &str = include_str!("../../../../README.md");

/// The arguments of the program in the README's blocks of shell commands, a list for each command.
fn commands(text: &str) -> Vec<Vec<String>> {
    let blocks = text.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("sh\n"));
    let lines = blocks.flat_map(str::lines).map(|line| line.split(" #").next().unwrap_or(line));
    lines.filter_map(arguments).collect()
}

/// The words after `pathbench`, or after `cargo run … --`, up to a pipe, a redirection or `&`.
fn arguments(line: &str) -> Option<Vec<String>> {
    let words = line.split_whitespace().take_while(|word| !["|", ">", "&"].contains(word));
    // A fingerprint instead of the word that stands for it.
    let words =
        words.map(|word| if word == "HEX" { "5f".repeat(32) } else { word.trim_matches('\'').to_owned() });
    let words: Vec<String> = words.collect();
    let is_other_program = words.iter().any(|word| word == "pathbench-collector");
    let begin = match words.first()?.as_str() {
        "pathbench" => 1,
        "cargo" if words.get(1)? == "run" && !is_other_program => {
            words.iter().position(|word| word == "--")? + 1
        }
        _ => return None,
    };
    Some(words[begin..].to_vec())
}

#[test]
fn the_program_accepts_every_command() {
    let commands = commands(TEXT);
    assert!(commands.len() >= 25, "only {} commands", commands.len());
    assert_eq!(commands[0][..2], ["lab", "run"], "the first command does the main job");
    for mut arguments in commands {
        // The help is printed once all arguments before it are accepted; words of other programs are behind `--`.
        let own = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
        arguments.truncate(own);
        arguments.push("--help".to_owned());
        let output = finish(Command::new(binary()).args(&arguments)).expect(0);
        assert!(output.stdout.contains("Usage: pathbench "), "{arguments:?}: {}", output.stdout);
    }
}

#[test]
fn commands_are_found_in_text() {
    let text = "```sh\npathbench lab show x > mine.toml   # a copy\n./test\ncargo run --release -- check\n```\n\
                ```\npathbench output\n```\n";
    assert_eq!(commands(text), [vec!["lab", "show", "x"], vec!["check"]]);
}
