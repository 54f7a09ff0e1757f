//! Every relative link of the repository's Markdown files leads to a file, and to a heading where it names one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Directories that are no part of the repository, or have files from elsewhere.
const SKIPPED: [&str; 6] = [".git", "advisories", "corpus", "node_modules", "recorded", "target"];

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !SKIPPED.contains(&name) {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|kind| kind == "md") {
            files.push(path);
        }
    }
}

/// The lines outside of code blocks, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((index + 1, line));
        }
    }
    lines
}

/// A line without the texts between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The targets of `[text](target)` and `![text](target)`, and of a definition `[name]: target`.
fn targets(line: &str) -> Vec<String> {
    let line = without_code(line);
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let mut found: Vec<String> =
        inline.filter_map(|rest| rest.split_whitespace().next()).map(str::to_owned).collect();
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        found.extend(target.split_whitespace().next().map(str::to_owned));
    }
    found
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).into_iter().filter(|(_, line)| line.starts_with('#'));
    let named = headings.map(|(_, line)| {
        let kept = line.trim_start_matches('#').trim().to_lowercase();
        let slug = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        slug.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    });
    let unique = named.map(|slug| {
        let count = counts.entry(slug.clone()).or_default();
        *count += 1;
        if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
    });
    let mut anchors: BTreeSet<String> = unique.collect();
    for attribute in ["id=\"", "name=\""] {
        anchors.extend(
            text.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned),
        );
    }
    anchors
}

/// The problem of a link, if it has one.
fn problem(page: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let linked = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    if !linked.exists() {
        return Some(format!("{file} does not exist"));
    }
    let anchor = anchor.filter(|_| linked.extension().is_some_and(|kind| kind == "md"))?;
    let found = anchors(&fs::read_to_string(&linked).unwrap()).contains(anchor);
    (!found).then(|| format!("{} has no heading #{anchor}", linked.display()))
}

#[test]
fn every_relative_link_resolves() {
    let mut pages = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap(), &mut pages);
    let mut count = 0;
    let mut problems = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for (number, line) in prose(&text) {
            for target in targets(line) {
                count += 1;
                if let Some(problem) = problem(page, &target) {
                    problems.push(format!("{}:{number}: {problem}", page.display()));
                }
            }
        }
    }
    assert!(count >= 100, "only {count} links in {} pages", pages.len());
    assert!(problems.is_empty(), "links that lead nowhere:\n{}", problems.join("\n"));
}

#[test]
fn links_and_anchors_are_found() {
    assert_eq!(targets("see [a](a.md#b), ![figure](x.svg \"title\") and `[no](link)`"), ["a.md#b", "x.svg"]);
    assert_eq!(targets("[name]: docs/a.md"), ["docs/a.md"]);
    let text = "# A `kernel` link\n## Why, and why not?\n```\n# no heading\n```\n## A `kernel` link\n";
    let expected = ["a-kernel-link", "a-kernel-link-1", "why-and-why-not"].map(str::to_owned);
    assert_eq!(anchors(text), expected.into());
}
