//! The page: a block for each scenario, with the figures of its result in its sentence.

use super::table::{Entry, SECTIONS};
use pathbench_record::document::{Group, ResultDocument};
use pathbench_report::narrative::headline_text;
use pathbench_report::quantity;
use std::collections::BTreeMap;

const HEAD: &str = "\
# The gallery

One figure of each shipped scenario, from a real run, and a sentence that says what to learn from it. This command makes the runs, the
figures and this page, in about 45 minutes:

```sh
cargo run --release --locked --package pathbench --example gallery
```

`-- --only NAME` makes the entry of one scenario (repeatable), `--repeat N` changes the repetitions, `--results DIR` chooses where the
results go (`target/gallery`). The command keeps a result only if each of its runs is valid and all of its expectations hold. Otherwise it
runs the scenario again, at most twice. It does not repeat a scenario whose result is already there: remove the result's directory first.

Numbers in the sentences are medians of the result, and the figure shows them, too. `TCP` and `QUIC` use the first path, unless the
label names another one (`tcp@wlan`). The line after the sentence is the result's headline ([definition](metrics.md#headline)).
";

/// The whole page. `blocks` has the block of each scenario.
pub(crate) fn page(blocks: &BTreeMap<String, String>) -> String {
    let mut text = HEAD.to_owned();
    for section in SECTIONS {
        text.extend(["\n## ", section.title, "\n"]);
        text.extend(
            section.entries.iter().filter_map(|entry| blocks.get(entry.scenario)).map(String::as_str),
        );
    }
    text
}

/// The blocks of an earlier page, by scenario.
pub(crate) fn blocks(page: &str) -> BTreeMap<String, String> {
    let mut blocks: BTreeMap<String, String> = BTreeMap::new();
    let mut current = None;
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("### ") {
            current = Some(name.to_owned());
            // The empty line in front of the heading.
            blocks.insert(name.to_owned(), "\n".to_owned());
        } else if line.starts_with("## ") {
            current = None;
        }
        if let Some(block) = current.as_ref().and_then(|name| blocks.get_mut(name)) {
            block.push_str(line);
            block.push('\n');
        }
    }
    for block in blocks.values_mut() {
        block.truncate(block.trim_end().len());
        block.push('\n');
    }
    blocks
}

/// The block of `entry`: heading, sentence, the result's headline, figure, command.
pub(crate) fn block(entry: &Entry, options: &[String], document: &ResultDocument) -> Result<String, String> {
    let name = entry.scenario;
    let sentence = filled(entry.sentence, document)?;
    let command = [&["pathbench lab run".to_owned(), name.to_owned()], options].concat().join(" ");
    let runs = quantity::counted(document.runs.len() as u32, "run");
    let (kernel, day) = (&document.host.kernel, document.host.started.get(..10).unwrap_or_default());
    let headline = headline_text(document).map(|text| format!("> {text}\n\n")).unwrap_or_default();
    Ok(format!(
        "\n### {name}\n\n{sentence}\n\n{headline}![{name}: {figure}](img/gallery/{name}.svg)\n\n\
         [Scenario](../scenarios/{name}.toml); `{command}`; {runs}, Linux {kernel}, {day}\n",
        figure = entry.figure,
    ))
}

/// `sentence` with each `{label.figure}` replaced by the median of that figure, and `{a.figure/b.figure}` by a ratio of
/// medians. `#2` behind a figure is the second variant in the order of their text.
fn filled(sentence: &str, document: &ResultDocument) -> Result<String, String> {
    let mut text = String::new();
    for part in parts(sentence) {
        match part {
            Part::Text(words) => text += words,
            Part::Figure(key) => text += &figure_in_words(key, document)?,
        }
    }
    Ok(text)
}

pub(crate) enum Part<'a> {
    Text(&'a str),
    /// Between braces.
    Figure(&'a str),
}

pub(crate) fn parts(sentence: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = sentence;
    while let Some((words, more)) = rest.split_once('{') {
        let (key, after) = more.split_once('}').unwrap_or((more, ""));
        parts.extend([Part::Text(words), Part::Figure(key)]);
        rest = after;
    }
    parts.push(Part::Text(rest));
    parts
}

fn figure_in_words(key: &str, document: &ResultDocument) -> Result<String, String> {
    if let Some((one, other)) = key.split_once('/') {
        return Ok(quantity::ratio(median(one, document)? / median(other, document)?));
    }
    let value = median(key, document)?;
    let figure = key.split('#').next().unwrap_or(key);
    Ok(match figure.rsplit_once('_') {
        Some((_, "mbps")) => quantity::rate(value),
        Some((_, "ms")) => quantity::duration(value),
        Some((_, "loss")) => quantity::percent(value),
        _ => return Err(format!("`{key}` has no unit that this program knows: _mbps, _ms, _loss")),
    })
}

fn median(key: &str, document: &ResultDocument) -> Result<f64, String> {
    let (name, variant) = key.split_once('#').unwrap_or((key, "1"));
    let (label, figure) = name.split_once('.').ok_or_else(|| format!("`{key}` is not LABEL.FIGURE"))?;
    let of_label = |group: &&Group| group.label == label && group.figures.contains_key(figure);
    let nth = variant.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let mut groups: Vec<&Group> = document.summary.groups.iter().filter(of_label).collect();
    // The summary has them in the random order of the runs.
    groups.sort_by_cached_key(|group| format!("{:?}", group.variant));
    let group = nth.and_then(|nth| groups.get(nth));
    group.map(|group| group.figures[figure].median).ok_or_else(|| format!("the result has no figure `{key}`"))
}
