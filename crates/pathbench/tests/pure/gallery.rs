//! docs/gallery.md has every shipped scenario, with the sentence of the gallery's table and a figure that shows the
//! sentence's numbers.

#[allow(dead_code, reason = "the program that writes the page uses the rest")]
#[path = "../../examples/gallery/page.rs"]
mod page;
#[allow(dead_code, reason = "the program that writes the page uses the rest")]
#[path = "../../examples/gallery/table.rs"]
mod table;

use page::Part;
use roxmltree::Document;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use table::{Entry, entries};

const MOST_BYTES: u64 = 4 << 20;

const SVG: &str = "http://www.w3.org/2000/svg";

/// An SVG file: what in it is not a drawing, and its text.
#[derive(Debug, Default)]
struct Figure {
    problems: Vec<String>,
    text: String,
}

fn docs() -> PathBuf {
    pathbench_testkit::checkout().join("docs")
}

fn image(entry: &Entry) -> PathBuf {
    docs().join(format!("img/gallery/{}.svg", entry.scenario))
}

fn read_svg(path: &Path) -> Figure {
    let file = fs::read_to_string(path).unwrap();
    let document = match Document::parse(&file) {
        Ok(document) => document,
        Err(error) => return Figure { problems: vec![error.to_string()], ..Figure::default() },
    };
    let mut figure = Figure::default();
    if !document.root_element().has_tag_name((SVG, "svg")) {
        figure.problems.push(format!("the root is {:?}", document.root_element().tag_name()));
    }
    for node in document.descendants() {
        if let Some(name @ ("script" | "foreignObject" | "image")) = Some(node.tag_name().name()) {
            figure.problems.push(format!("an element {name}"));
        }
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            if name.starts_with("on") || name == "href" && !value.starts_with('#') {
                figure.problems.push(format!("{name}={value}"));
            }
        }
    }
    let texts = document.descendants().filter(roxmltree::Node::is_text).filter_map(|node| node.text());
    figure.text = texts.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
    figure
}

/// The numbers that were filled into the sentence of `entry`, if `block` has that sentence.
fn filled<'a>(entry: &Entry, block: &'a str) -> Option<Vec<&'a str>> {
    let sentence = block.lines().nth(3)?;
    let (mut rest, mut numbers) = (sentence, Vec::new());
    let parts = page::parts(entry.sentence);
    let words =
        parts.iter().filter_map(|part| if let Part::Text(words) = part { Some(*words) } else { None });
    for (index, words) in words.enumerate() {
        let is_last = 2 * index + 1 == parts.len();
        let (number, after) = if is_last { (rest.strip_suffix(words)?, "") } else { rest.split_once(words)? };
        numbers.push(number);
        rest = after;
    }
    // Nothing is in front of the first words.
    (rest.is_empty() && numbers.first()?.is_empty()).then(|| numbers.split_off(1))
}

#[test]
fn every_shipped_scenario_has_an_entry_and_a_figure() {
    let names = |directory: &str, extension: &str| -> BTreeSet<String> {
        let files = fs::read_dir(pathbench_testkit::checkout().join(directory)).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        files.map(|file| file.strip_suffix(extension).unwrap_or(&file).to_owned()).collect()
    };
    let scenarios = names("scenarios", ".toml");
    let table: Vec<String> = entries().map(|entry| entry.scenario.to_owned()).collect();
    assert!(scenarios.len() > 30, "{scenarios:?}");
    assert_eq!(table.len(), scenarios.len(), "an entry is there twice, or is missing");
    assert_eq!(table.into_iter().collect::<BTreeSet<_>>(), scenarios);
    assert_eq!(names("docs/img/gallery", ".svg"), scenarios);
}

#[test]
fn the_page_is_made_from_the_table() {
    let text = fs::read_to_string(docs().join("gallery.md")).unwrap();
    let blocks = page::blocks(&text);
    assert!(page::page(&blocks) == text, "docs/gallery.md is not the program's: make it again");
    for entry in entries() {
        let block = &blocks[entry.scenario];
        assert!(filled(entry, block).is_some(), "make the entry again: {block}");
        assert!(block.contains(&format!("(img/gallery/{}.svg)", entry.scenario)), "{block}");
    }
}

#[test]
fn the_figures_are_drawings_and_show_the_numbers_of_their_sentences() {
    let text = fs::read_to_string(docs().join("gallery.md")).unwrap();
    let blocks = page::blocks(&text);
    let images: Vec<PathBuf> = entries().map(image).collect();
    let bytes: u64 = images.iter().map(|image| fs::metadata(image).unwrap().len()).sum();
    assert!(bytes <= MOST_BYTES, "the gallery has {bytes} bytes");
    let mut numbers = 0;
    for entry in entries() {
        let figure = read_svg(&image(entry));
        assert_eq!(figure.problems, Vec::<String>::new(), "{}", entry.scenario);
        for number in filled(entry, &blocks[entry.scenario]).unwrap() {
            let shown = figure.text.contains(number);
            assert!(shown, "{}: the figure does not show `{number}`: {figure:?}", entry.scenario);
            numbers += 1;
        }
    }
    assert!(numbers > 10, "only {numbers} numbers were compared");
}

#[test]
fn scripts_and_broken_files_are_found() {
    let place = tempfile::tempdir().unwrap();
    let svg = |content: &str| format!(r#"<svg xmlns="http://www.w3.org/2000/svg">{content}</svg>"#);
    let files = [
        ("good", svg("<text>1  s</text>"), true),
        ("script", svg("<script>1</script>"), false),
        ("event", svg(r#"<g onload="x()"/>"#), false),
        ("link", svg(r#"<a href="https://example.com"/>"#), false),
        ("broken", svg("<g>"), false),
    ];
    for (name, content, good) in files {
        let file = place.path().join(name);
        fs::write(&file, content).unwrap();
        let problems = read_svg(&file).problems;
        assert_eq!(problems.is_empty(), good, "{name}: {problems:?}");
    }
}
