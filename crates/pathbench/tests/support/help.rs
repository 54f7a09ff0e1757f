//! The program's commands and their options, according to its help.

use super::{binary, finish};
use pathbench_testkit::program;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// A command by its words after `pathbench`; without words, the program itself.
#[derive(Debug)]
pub(crate) struct HelpPage {
    pub(crate) words: Vec<String>,
    /// Long options, including the dashes.
    pub(crate) options: BTreeSet<String>,
    /// Whether the command requires a subcommand.
    pub(crate) is_group: bool,
}

impl HelpPage {
    pub(crate) fn name(&self) -> String {
        self.words.join(" ")
    }
}

/// Every command with a help page.
pub(crate) fn pages() -> Vec<HelpPage> {
    pages_from(&binary(), &[])
}

/// The commands of the collector, which `pathbench collect` starts.
pub(crate) fn collector_pages() -> Vec<HelpPage> {
    let mut pages = pages_from(&program("pathbench-collector"), &[]);
    for page in &mut pages {
        page.words.insert(0, "collect".to_owned());
    }
    pages
}

fn pages_from(program: &Path, words: &[String]) -> Vec<HelpPage> {
    let help = finish(Command::new(program).args(words).arg("--help")).expect(0).stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    // Continuation lines of a description have a deeper indentation.
    let names = listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    let options = help.lines().filter_map(|line| {
        line.trim_start().split(", ").find(|part| part.starts_with("--"))?.split([' ', '=', '[', '<']).next()
    });
    let own = HelpPage {
        words: words.to_vec(),
        options: options.map(str::to_owned).collect(),
        is_group: help.lines().any(|line| line.starts_with("Usage: ") && line.ends_with("<COMMAND>")),
    };
    let inner = names.flat_map(|name| pages_from(program, &[words, &[name.to_owned()]].concat()));
    let inner: Vec<HelpPage> = inner.collect();
    std::iter::once(own).chain(inner).collect()
}
