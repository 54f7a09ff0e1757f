//! The structure of the page: nothing that its content security policy blocks, and what screen readers need.

use crate::parts::Parts;
use crate::synthetic;
use pathbench_report::{FigureFormat, ResultSet, html};
use std::collections::BTreeSet;

fn pages() -> Vec<(&'static str, String)> {
    let all: Vec<(&str, ResultSet)> = vec![
        ("nothing", synthetic::nothing("nothing", "no run")),
        ("failover", synthetic::failover()),
        ("aggregate", synthetic::aggregate(7, true)),
        ("invalid", synthetic::all_invalid()),
        ("suite", synthetic::suite()),
        ("handover", synthetic::handover()),
        ("walk", synthetic::walk()),
        ("probing", synthetic::probing()),
        ("shrink", synthetic::shrink()),
        ("examined", synthetic::examined()),
        ("hostile", synthetic::hostile()),
    ];
    let single = all.iter().map(|(name, set)| (*name, html::report(std::slice::from_ref(set))));
    let mut pages: Vec<(&str, String)> = single.collect();
    pages.push(("two", html::report(&[synthetic::failover(), synthetic::failover()])));
    pages.push(("trace", trace_page()));
    pages.into_iter().map(|(name, page)| (name, markup(&page))).collect()
}

fn trace_page() -> String {
    let out = tempfile::tempdir().unwrap();
    let written = pathbench_report::trace::write(
        &synthetic::traced(),
        &synthetic::sequences(),
        out.path(),
        FigureFormat::Svg,
    )
    .unwrap();
    std::fs::read_to_string(written.html).unwrap()
}

/// The page without scripts, data and styles.
fn markup(page: &str) -> String {
    let parts = Parts::of(page);
    parts.styles.iter().fold(parts.rest.clone(), |markup, style| markup.replace(style, ""))
}

/// The content of each element `name`, without nested elements of that name.
fn elements<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let starts = page.match_indices(&open).map(|(at, _)| &page[at + open.len()..]);
    let exact = starts.filter(|rest| rest.starts_with([' ', '>']));
    exact.filter_map(|rest| Some(rest.split_once('>')?.1.split_once(&close)?.0)).collect()
}

fn text(markup: &str) -> String {
    let parts = markup.split('<').enumerate();
    parts
        .map(|(index, part)| if index == 0 { part } else { part.split_once('>').map_or("", |one| one.1) })
        .collect()
}

/// The values of an attribute. Text has no double quote that is not escaped.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let open = format!(" {attribute}=\"");
    page.match_indices(&open)
        .filter_map(|(at, _)| page[at + open.len()..].split_once('"').map(|(value, _)| value))
        .collect()
}

#[test]
fn no_attribute_has_a_style_or_a_handler() {
    for (name, page) in pages() {
        assert!(!page.contains(" style=\""), "{name}");
        let handler = page.match_indices(" on").find(|(at, _)| {
            let word = page[at + 3..].split(['=', ' ', '<', '>']).next().unwrap_or_default();
            word.chars().all(|c| c.is_ascii_lowercase()) && page[at + 3 + word.len()..].starts_with("=\"")
        });
        assert_eq!(handler, None, "{name}");
    }
}

#[test]
fn ids_are_unique_and_references_have_their_element() {
    for (name, page) in pages() {
        let ids = values(&page, "id");
        let known: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), known.len(), "{name}: {ids:?}");
        for reference in values(&page, "aria-labelledby").iter().flat_map(|value| value.split(' ')) {
            assert!(known.contains(reference), "{name}: {reference}");
        }
        for anchor in values(&page, "href").iter().filter_map(|value| value.strip_prefix('#')) {
            assert!(known.contains(anchor), "{name}: {anchor}");
        }
    }
}

#[test]
fn every_heading_of_a_table_has_text() {
    for (name, page) in pages() {
        for heading in elements(&page, "th") {
            assert!(!text(heading).trim().is_empty(), "{name}: {heading:?}");
        }
        assert_eq!(elements(&page, "table").len(), elements(&page, "caption").len(), "{name}");
        for table in page.match_indices("<table>") {
            let before = &page[..table.0];
            assert!(
                before.ends_with('>') && before.rsplit('<').next().unwrap().contains("tabindex=\"0\""),
                "{name}"
            );
        }
    }
}

#[test]
fn headings_leave_no_level_out() {
    for (name, page) in pages() {
        let found =
            page.match_indices("<h").filter_map(|(at, _)| page[at + 2..].chars().next()?.to_digit(10));
        let mut before = 0;
        for level in found {
            assert!(level <= before + 1, "{name}: h{level} after h{before}");
            before = level;
        }
        assert!(before > 0, "{name}");
    }
}

#[test]
fn pictures_have_a_name_and_follow_the_colour_scheme() {
    for (name, page) in pages() {
        let figures = elements(&page, "figure");
        for figure in &figures {
            assert!(figure.contains("role=\"img\" aria-labelledby=\""), "{name}");
            let captions = elements(figure, "figcaption");
            assert!(captions.iter().all(|caption| !text(caption).trim().is_empty()), "{name}");
            assert!(captions.len() == 1 || name == "nothing", "{name}");
            assert!(!figure.contains("=\"#"), "{name}: a colour that does not follow the scheme");
        }
        assert_eq!(page.matches("<div class=\"static\">").count() > 0, !figures.is_empty(), "{name}");
    }
}

#[test]
fn timelines_show_the_spread_over_repetitions() {
    let is_timeline =
        |name: &str| ["timeline", "delay", "mtu", "links"].iter().any(|kind| name.starts_with(kind));
    let mut found = BTreeSet::new();
    for set in [
        synthetic::failover(),
        synthetic::aggregate(7, false),
        synthetic::handover(),
        synthetic::walk(),
        synthetic::shrink(),
        synthetic::probing(),
    ] {
        let mut groups = set.document.summary.groups.iter();
        let is_repeated = groups.any(|group| group.valid > 1);
        for figure in pathbench_report::figures(&[set]).concat().iter().filter(|one| is_timeline(&one.name)) {
            let is_shown = figure.svg.to_string().contains("lowest and highest of the valid runs");
            let is_explained = figure.caption.concat().contains("Dotted: the lowest and the highest value");
            assert_eq!(is_shown, is_explained, "{}", figure.name);
            assert!(is_repeated || !is_shown, "{}", figure.name);
            let kind = figure.name.split('-').next().unwrap_or_default().to_owned();
            found.extend(is_shown.then_some(kind));
        }
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["delay", "links", "mtu", "timeline"]);
}

#[test]
fn the_answer_comes_first_and_the_command_last() {
    let page = html::report(&[synthetic::failover()]);
    let order = [
        "<h2>In short</h2>",
        "<h2>Over time</h2>",
        "<div class=\"static\">",
        "<h2>Was multipath used?</h2>",
        "<h2>Results</h2>",
        "<h2>Links</h2>",
        "<h2>Runs</h2>",
        "<h2>The command that repeats it</h2>",
        "<h2>Hosts</h2>",
    ];
    let places: Vec<Option<usize>> = order.iter().map(|part| page.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
    assert!(page.contains("<code>pathbench lab run failover --seed 1</code>"));
}

#[test]
fn runs_left_out_are_counted_and_named_by_their_reason() {
    let mut set = synthetic::failover();
    set.document.runs[0].leave_out_as_warm_up();
    set.document.runs[1].valid = false;
    set.document.runs[1].invalid_because = vec!["link `wlan` gave 412 Mbit/s of 1 Gbit/s".to_owned()];
    let page = html::report(&[set]);
    for part in ["1 warm-up run by request; 1 run not valid", "01-mptcp-r1", "02-tcp-eth-r1"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_thousand_runs_are_a_table_beside_the_representative_ones() {
    let mut set = synthetic::failover();
    let runs = set.document.runs.clone();
    for repetition in 4..=340_u32 {
        set.document.runs.extend(runs.iter().take(3).map(|run| {
            let id = format!("{repetition}-{}", run.label.replace('@', "-"));
            pathbench_record::document::RunRecord { id, repetition, ..run.clone() }
        }));
    }
    let page = markup(&html::report(&[set]));
    assert!(page.contains("other runs in short") && page.contains("more are in <code>run.json</code>"));
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
}

#[test]
fn a_thousand_runs_stay_bounded() {
    let set = synthetic::aggregate(510, false);
    assert_eq!(set.document.runs.len(), 1020);
    let page = html::report(&[set]);
    assert!(page.contains("The panels show 1000 of 1020 runs"), "the page states what it leaves out");
    assert!(page.len() < 30 << 20, "{} bytes", page.len());
}

/// A remark below its table or figure would stand alone.
#[test]
fn remarks_follow_their_headings() {
    for (name, page) in pages() {
        for before in page.split("<p class=\"muted remark\">").collect::<Vec<_>>().windows(2) {
            assert!(
                before[0].ends_with("</h2>"),
                "{name}: {}",
                &before[0][before[0].len().saturating_sub(80)..]
            );
        }
    }
}

#[test]
fn figures_without_panels_have_a_picture_for_narrow_pages() {
    let page = html::report(&[synthetic::failover()]);
    let narrow: Vec<&str> = page.split("<div class=\"narrow\">").skip(1).collect();
    assert!(!narrow.is_empty());
    for picture in narrow {
        assert!(picture.starts_with("<svg width=\"400\""), "{}", &picture[..80]);
    }
}

/// `1.465` on the way to the page would be rounded to 1.47 here and to 1.46 there.
#[test]
fn a_figure_is_rounded_once() {
    let mut set = synthetic::aggregate(1, false);
    for run in &mut set.document.runs {
        run.goodput_mbps = Some(1.464_96);
    }
    set.document.summary.groups = pathbench_record::summary::summarise(&set.document.runs);
    let page = html::report(&[set]);
    assert!(page.contains("\"goodput_mbps\":\"1.46 Mbit/s\"") && page.contains(">1.46 Mbit/s"));
    assert!(!page.contains("1.47 Mbit/s") && !page.contains("\"goodput_mbps\":1.465"), "rounded twice");
}

/// Internal names with units are for files.
#[test]
fn no_event_has_an_internal_unit() {
    let mut set = synthetic::failover();
    for event in set.lines.held.events.iter_mut().filter(|event| event.kind.name() == "down") {
        event.kind = "set".into();
        let detail = serde_json::json!({ "rate_bps": 20_000_000, "delay_ms": 50.0, "queue_bytes": 64_000,
            "loss": 0.01, "path_mtu_bytes": 1500 });
        event.detail = detail.as_object().cloned().expect("an object");
    }
    let words = ["rate=20 Mbit/s", "delay=50 ms", "queue=64 kB", "loss=1 %", "path_mtu=1500"];
    let figure = synthetic::drawn(&set, "timeline").expect("a figure");
    let page = html::report(&[set]);
    for word in words {
        assert!(page.contains(word), "{word}");
    }
    assert!(figure.contains("rate=20 Mbit/s"));
    for (name, text) in
        pages().iter().map(|(name, page)| (*name, page.as_str())).chain([("set", page.as_str())])
    {
        for internal in ["_bps=", "_ms=", "_bytes="] {
            assert!(!text.contains(internal), "{name}: {internal}");
        }
    }
}
