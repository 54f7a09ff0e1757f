//! What a person reads in the terminal after a run.

mod diagnosis;
mod mobility;
mod page;
mod path_mtu;
mod server;
mod table;
mod timeline;

pub use path_mtu::{mtu, mtu_change};

use crate::ResultSet;
use crate::narrative::{self, Story, Tone};
use crate::palette::is_part;
use crate::quantity::{self, bit_rate, bytes, counted, duration, each_direction, percent, plain};
use crate::view::{GroupView, View, name_of, override_text};
use page::{Ink, Line, Page, columns, fitted};
use pathbench_record::document::{
    DirectionFigures, LinkMeasurement, LinkRecord, PathRecord, RunRecord, Variant,
};

/// How the terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether it shows colours (the caller honours `NO_COLOR`).
    pub colour: bool,
    /// Its width in columns; taken for 80 when it is less.
    pub width: usize,
}

/// Groups whose paths are listed; the report has them all.
const MOST_GROUPS: usize = 12;

/// The summary of a result: what was asked, whether multipath was used, the figures per label, who carried
/// the bytes, a small timeline, and what there is to know about it.
///
/// No line is longer than the terminal is wide, but for the last ones, which name files.
pub fn summary(set: &ResultSet, style: Style) -> String {
    let view = View::new(set);
    let mut page = Page::new(style);
    write_question(&mut page, &view);
    if let Some(record) = &set.document.mtu {
        path_mtu::write(&mut page, record);
        if set.document.runs.is_empty() {
            write_notes(&mut page, &view);
            write_files(&mut page, set);
            return page.finish();
        }
    }
    server::write(&mut page, &view);
    write_links(&mut page, &view);
    table::write_verdicts(&mut page, &view);
    table::write(&mut page, &view);
    mobility::write(&mut page, &view);
    write_paths(&mut page, &view);
    diagnosis::write(&mut page, &view);
    timeline::write(&mut page, &view);
    timeline::write_delays(&mut page, &view);
    write_stories(&mut page, &view);
    write_notes(&mut page, &view);
    write_expectations(&mut page, &view);
    write_invalid(&mut page, &view);
    write_files(&mut page, set);
    page.finish()
}

fn write_question(page: &mut Page, view: &View) {
    let document = &view.set.document;
    let scenario = &document.scenario;
    let start = Line::new().add(Ink::Strong, &fitted(&scenario.name, 40)).add(Ink::Plain, "  ");
    page.paragraph(start, Ink::Plain, &scenario.description);
    let mut parts = Vec::new();
    match (view.patterns().as_slice(), document.runs.first()) {
        ([_, _, ..], _) => {
            let names: Vec<&str> = view.patterns().iter().map(|pattern| pattern.name).collect();
            parts.push(names.join(", "));
        }
        (_, Some(run)) => parts.push(narrative::traffic(run)),
        _ => {}
    }
    let mut labels: Vec<&str> = Vec::new();
    for (_, label) in view.labels() {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    if (1..=8).contains(&labels.len()) {
        parts.push(labels.join(", "));
    }
    // An examination of path MTUs is no run, and nothing in it is left to chance.
    if document.mtu.is_none() || !document.runs.is_empty() {
        parts.push(counted(document.runs.len() as u32, "run"));
        parts.push(format!("seed {}", document.seed));
    }
    if !document.host.kernel.is_empty() {
        parts.push(format!("Linux {}", document.host.kernel));
    }
    parts.extend(scenario.overrides.iter().map(|(key, value)| override_text(key, value)));
    // Parts stay whole; lines break between them.
    let parts: Vec<String> = parts.iter().map(|part| part.replace(' ', "\u{a0}")).collect();
    page.paragraph(Line::new(), Ink::Dim, &parts.join(" · "));
}

fn write_links(page: &mut Page, view: &View) {
    let document = &view.set.document;
    if document.links.is_empty() {
        return;
    }
    page.heading("Links", "asked → measured");
    let shown = shown_links(view);
    let names = shown.iter().map(|link| columns(&fitted(&link.name, 16))).max().unwrap_or(0);
    for link in shown {
        let deviations = deviations(view, link);
        let (mark, ink) = match (&link.measured, deviations.is_empty()) {
            (None, _) => ("?", Ink::Dim),
            (Some(_), true) => ("✓", Ink::Good),
            (Some(_), false) => ("✗", Ink::Bad),
        };
        let start = Line::new().add(Ink::Plain, "  ").add(ink, mark).add(Ink::Plain, " ");
        let rank = Ink::Path(view.paths.rank(&link.name));
        let start = start.add(rank, &fitted(&link.name, 16)).padded_to(names + 6);
        page.paragraph(start, Ink::Plain, &link_text(link));
        for deviation in deviations {
            page.paragraph(Line::new().padded_to(names + 6), Ink::Bad, &deviation);
        }
    }
}

/// The links of a summary: those that ask for something, once for all variants in which they ask for the same and
/// nothing was off.
fn shown_links<'a>(view: &View<'a>) -> Vec<&'a LinkRecord> {
    let all = &view.set.document.links;
    let mut shown: Vec<&LinkRecord> = Vec::new();
    for link in all.iter().filter(|link| !is_plain_part(link, all)) {
        let told = shown.iter().any(|one| one.name == link.name && one.requested == link.requested);
        if !told || !deviations(view, link).is_empty() {
            shown.push(link);
        }
    }
    shown
}

/// Whether `link` is a part of a path that asks for nothing of its own and takes whatever the path's link takes.
fn is_plain_part(link: &LinkRecord, all: &[LinkRecord]) -> bool {
    let asked = &link.requested;
    let plain = |asked: &DirectionFigures| {
        asked.rate_bps.is_none() && asked.delay_ms.is_none_or(|ms| ms == 0.0) && asked.loss.is_none()
    };
    plain(&asked.forward)
        && plain(&asked.reverse)
        && all
            .iter()
            .any(|path| is_part(&link.name, &path.name) && asked.mtu_bytes >= path.requested.mtu_bytes)
}

/// What was off on a link in any run, each thing once.
fn deviations(view: &View, link: &LinkRecord) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let runs = view
        .set
        .document
        .runs
        .iter()
        .filter(|run| link.variant.iter().all(|(key, value)| run.variant.get(key) == Some(value)));
    for measured in
        runs.flat_map(|run| &run.links).filter(|one| one.name == link.name && !one.within_tolerance)
    {
        let texts =
            if measured.deviations.is_empty() { vec!["off".to_owned()] } else { measured.deviations.clone() };
        for text in texts {
            if !found.contains(&text) && found.len() < 3 {
                found.push(text);
            }
        }
    }
    found
}

fn link_text(link: &LinkRecord) -> String {
    let asked = &link.requested;
    let (forward, reverse) = (&asked.forward, &asked.reverse);
    let rate = each_direction(forward.rate_bps, reverse.rate_bps, |rate| plain(&bit_rate(rate)));
    let rate = rate.unwrap_or_else(|| "unlimited".to_owned());
    let delay = asked.rtt_ms().map(|rtt| plain(&duration(rtt)));
    let Some(measured) = &link.measured else {
        let delay = delay.map_or("RTT not set".to_owned(), |delay| format!("RTT {delay}"));
        return parts_text(&[rate, delay, format!("MTU {}", asked.mtu_bytes), "not measured".to_owned()]);
    };
    let found: Vec<u64> = [measured.forward_bps, measured.reverse_bps].into_iter().flatten().collect();
    let rates = match found.as_slice() {
        [] => rate,
        [one] => format!("{rate} → {}", bit_rate(*one)),
        [one, other, ..] if forward.rate_bps != reverse.rate_bps => {
            format!("{rate} → {} / {}", bit_rate(*one), bit_rate(*other))
        }
        [one, other, ..] => {
            let show = |mbps: f64| quantity::rate(mbps);
            format!(
                "{rate} → {}",
                quantity::range(*one as f64 / 1e6, *other as f64 / 1e6, show).replace('–', " / ")
            )
        }
    };
    let delay = delay.map_or(String::new(), |delay| format!("{delay} → "));
    let mtu = measured.forward_mtu_bytes.min(measured.reverse_mtu_bytes);
    let mtu = if mtu == asked.mtu_bytes { mtu.to_string() } else { format!("{} → {mtu}", asked.mtu_bytes) };
    let rtt = duration(measured.rtt_ms);
    let mut parts = vec![rates, format!("RTT {delay}{rtt}")];
    parts.extend(loss_text(forward.loss.into_iter().chain(reverse.loss).reduce(f64::max), measured));
    parts.extend([format!("MTU {mtu}"), link.engine.clone()]);
    parts_text(&parts)
}

/// Loss asked and measured, the worse direction; nothing where none was asked for and none was seen.
fn loss_text(asked: Option<f64>, measured: &LinkMeasurement) -> Option<String> {
    let found = [measured.forward_loss, measured.reverse_loss].into_iter().flatten().reduce(f64::max)?;
    match asked.filter(|asked| *asked > 0.0) {
        Some(asked) => Some(format!("loss {} → {}", percent(asked), percent(found))),
        None => (found > 0.0).then(|| format!("loss {}", percent(found))),
    }
}

/// Parts with wide gaps between them, where the line may wrap; within a part it may not.
fn parts_text(parts: &[String]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| part.replace(' ', "\u{a0}")).collect();
    parts.join("\u{a0}\u{a0} ")
}

fn write_paths(page: &mut Page, view: &View) {
    // Among several patterns, those that fill several paths have something to tell.
    let fills = |group: &&GroupView| {
        !group.among_patterns || (!group.pattern.is_of_messages() && group.is_multipath())
    };
    let groups: Vec<(&GroupView, &RunRecord)> =
        view.groups.iter().filter(fills).filter_map(|group| Some((group, group.representative()?))).collect();
    if groups.iter().all(|(_, run)| run.paths.is_empty()) {
        return;
    }
    page.heading("Paths", "median share of the bytes that arrived; the rest from the run below");
    let widest = groups.iter().map(|(group, _)| columns(&fitted(&said(group), 26))).max().unwrap_or(0);
    let names = view.paths.names().iter().map(|name| columns(&fitted(name, 16))).max().unwrap_or(0);
    let texts = groups.iter().take(MOST_GROUPS).flat_map(|(_, run)| &run.paths).map(path_text);
    let text_width = texts.map(|text| columns(&text)).max().unwrap_or(0);
    // Path name, gap, percentage and the text all fit before the bar gets more than it needs.
    let bar = page.width().saturating_sub(widest + names + 14 + text_width).clamp(6, 24);
    let mut variant = None;
    for (group, run) in groups.iter().take(MOST_GROUPS) {
        page.variant(&mut variant, group.variant);
        for (index, path) in run.paths.iter().enumerate() {
            let name = if index == 0 { fitted(&said(group), 26) } else { String::new() };
            let ink = Ink::Path(view.paths.rank(&path.name));
            let line = Line::new().add(Ink::Strong, &format!("  {name}")).padded_to(widest + 4);
            let line = line.add(ink, &fitted(&path.name, 16)).padded_to(widest + names + 6);
            let share = group.summary.and_then(|group| group.shares.get(&path.name)).unwrap_or(&path.share);
            let line =
                line.add(ink, &bar_text(*share, bar)).add(Ink::Plain, &format!(" {:>5}  ", percent(*share)));
            // Rather less than a text that is cut.
            let mut text = path_text(path);
            while columns(&text) > page.width().saturating_sub(line.columns()) {
                let Some((shorter, _)) = text.rsplit_once("  ") else { break };
                text.truncate(shorter.len());
            }
            page.line(line.add(Ink::Dim, &text));
        }
    }
    if groups.len() > MOST_GROUPS {
        page.more(groups.len() - MOST_GROUPS);
    }
}

/// The label, with its pattern where there are several.
fn said(group: &GroupView) -> String {
    name_of(group.label, group.said_pattern(), &Variant::new())
}

/// A bar of `cells` characters, to the eighth of a character.
fn bar_text(share: f64, cells: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let part = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let eighths = (part * 8.0 * cells as f64).round() as usize;
    let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
    format!("{bar}{}", " ".repeat(cells.saturating_sub(columns(&bar))))
}

fn path_text(path: &PathRecord) -> String {
    let mut parts = vec![bytes(path.bytes_delivered)];
    if path.rtt_ms > 0.0 {
        parts.push(format!("RTT {}", duration(path.rtt_ms)));
    }
    if path.mss_bytes > 0 {
        parts.push(format!("MSS {}", path.mss_bytes));
    }
    if path.bytes_sent > 0 && path.retransmitted_bytes > 0 {
        let part = path.retransmitted_bytes as f64 / path.bytes_sent as f64;
        parts.push(format!("resent {}", percent(part)));
    }
    if path.backup == Some(true) {
        parts.push("backup".to_owned());
    }
    // Where it is worth a word.
    if let Some(control) = path.control_bytes.filter(|control| *control > path.bytes_delivered / 50) {
        parts.push(format!("control {}", bytes(control)));
    }
    parts.join("  ")
}

fn write_stories(page: &mut Page, view: &View) {
    let stories = narrative::stories_of(view);
    if stories.is_empty() {
        page.blank();
        page.line(Line::new().add(Ink::Bad, "No run was made."));
        return;
    }
    page.heading("What happened", "");
    let many = stories.len() > MOST_GROUPS;
    let told: Vec<&Story> = stories.iter().filter(|story| !many || story.tone != Tone::Good).collect();
    for story in told.iter().take(MOST_GROUPS) {
        let (mark, ink) = match story.tone {
            Tone::Good => ("✓", Ink::Good),
            Tone::Mixed => ("!", Ink::Warn),
            Tone::Bad => ("✗", Ink::Bad),
        };
        let start = Line::new().add(Ink::Plain, "  ").add(ink, mark).add(Ink::Plain, " ");
        page.paragraph(start, Ink::Plain, &(story.sentence() + "."));
        // The figures are in the table above.
        for detail in story.details.iter().skip(1) {
            page.paragraph(Line::new().add(Ink::Plain, "    "), Ink::Dim, detail);
        }
    }
    if told.len() > MOST_GROUPS {
        page.more(told.len() - MOST_GROUPS);
    } else if told.len() < stories.len() {
        let others = stories.len() - told.len();
        let text = format!("  {others} of {} got through every run; their figures are above", stories.len());
        page.line(Line::new().add(Ink::Dim, &text));
    }
}

fn write_notes(page: &mut Page, view: &View) {
    let document = &view.set.document;
    let mut notes: Vec<Note> = document.summary.notes.iter().map(|text| Note::of(text)).collect();
    let told = notes.iter().any(|note| note.text.contains("clear text"));
    if let Some(note) = narrative::encryption(view).filter(|_| !told) {
        notes.insert(0, Note::of(&note));
    }
    for run in &document.runs {
        for text in &run.notes {
            let new = Note::of(text);
            let place = notes.iter().position(|known| known.gist == new.gist).unwrap_or_else(|| {
                notes.push(new);
                notes.len() - 1
            });
            notes[place].differs |= notes[place].text != *text;
            notes[place].runs.push(&run.id);
        }
    }
    if notes.is_empty() {
        return;
    }
    page.heading("Notes", "");
    for note in notes {
        page.paragraph(Line::new().add(Ink::Plain, "  · "), Ink::Plain, &note.sentence());
    }
}

/// A note, and the runs that have it.
struct Note<'a> {
    text: String,
    /// The note without its numbers: those of several runs that differ in nothing else are told once.
    gist: String,
    runs: Vec<&'a str>,
    differs: bool,
}

impl Note<'_> {
    fn of(text: &str) -> Self {
        let gist = text.chars().filter(|character| !character.is_ascii_digit()).collect();
        Self { text: text.to_owned(), gist, runs: Vec::new(), differs: false }
    }

    fn sentence(&self) -> String {
        let of = match (self.runs.as_slice(), self.differs) {
            ([], _) => String::new(),
            ([run], _) => format!(" ({run})"),
            ([first, others @ ..], true) => {
                format!(" ({first}; much the same in {})", counted(others.len() as u32, "other run"))
            }
            (many, false) => format!(" ({} runs)", many.len()),
        };
        format!("{}{of}", self.text)
    }
}

fn write_expectations(page: &mut Page, view: &View) {
    let expectations = &view.set.document.summary.expectations;
    if expectations.is_empty() {
        return;
    }
    let held = expectations.iter().filter(|one| one.held).count();
    page.heading("Expectations", &format!("{held} of {} held", expectations.len()));
    for one in expectations {
        let (mark, ink) = if one.held { ("✓", Ink::Good) } else { ("✗", Ink::Bad) };
        let start = Line::new().add(Ink::Plain, "  ").add(ink, mark).add(Ink::Plain, " ");
        let verdict = if one.held { "held" } else { "did not hold" };
        let text = format!("{} {}: {verdict}, found {}", one.key, one.expected, one.found);
        page.paragraph(start, Ink::Plain, &text);
    }
}

fn write_invalid(page: &mut Page, view: &View) {
    let runs: Vec<&RunRecord> = view.set.document.runs.iter().filter(|run| !run.valid).collect();
    if runs.is_empty() {
        return;
    }
    page.heading("Runs that do not count", "the environment was not what was asked for");
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for run in runs {
        let because = run.invalid_because.join("; ");
        let because = if because.is_empty() { "no reason was recorded".to_owned() } else { because };
        match reasons.iter_mut().find(|(known, _)| *known == because) {
            Some((_, ids)) => ids.push(&run.id),
            None => reasons.push((because, vec![&run.id])),
        }
    }
    for (because, ids) in reasons.iter().take(MOST_GROUPS) {
        let (shown, more) = ids.split_at(ids.len().min(MOST_GROUPS));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        let start = Line::new().add(Ink::Plain, "  ").add(Ink::Bad, "✗").add(Ink::Plain, " ");
        page.paragraph(start, Ink::Plain, because);
        page.paragraph(Line::new().padded_to(4), Ink::Dim, &format!("{}{more}", shown.join(", ")));
    }
    if reasons.len() > MOST_GROUPS {
        page.more(reasons.len() - MOST_GROUPS);
    }
}

fn write_files(page: &mut Page, set: &ResultSet) {
    let Some(directory) = &set.directory else { return };
    page.blank();
    let report = directory.join("report.html");
    if report.is_file() {
        page.copyable("Report   ", &report.display().to_string());
    }
    page.copyable("Results  ", &directory.display().to_string());
}
