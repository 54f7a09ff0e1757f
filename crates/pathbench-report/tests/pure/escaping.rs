//! Text from results never becomes markup.

use crate::parts::Parts;
use crate::synthetic;
use pathbench_report::terminal::{Style, summary, trace};
use pathbench_report::{FigureFormat, figures, html, raster};

#[test]
fn names_from_files_do_not_become_markup() {
    let page = html::report(&[synthetic::hostile()]);
    assert!(page.contains("&lt;script&gt;alert"), "the name is shown");
    let parts = Parts::of(&page);
    assert!(!parts.rest.contains("<script") && !parts.rest.contains("</script"), "and not run");
    assert_eq!(parts.scripts.len(), 2, "only the report's own scripts");
    // Only the report's own style elements, figures and preformatted text have closing tags.
    assert_eq!(page.matches("</style>").count(), 3);
    assert_eq!(page.matches("<pre").count(), page.matches("</pre>").count());
    assert_eq!(page.matches("<svg ").count(), page.matches("</svg>").count());
}

#[test]
fn the_report_needs_nothing_from_elsewhere() {
    let page = html::report(&[synthetic::failover()]);
    let page = Parts::of(&page).rest;
    for outside in ["src=", "<link", "@import", "url(", "<script", "<iframe"] {
        assert!(!page.contains(outside), "{outside} in the report");
    }
    let addresses = page.match_indices("://").map(|(at, _)| &page[at - 4..(at + 22).min(page.len())]);
    for address in addresses {
        assert_eq!(address, "http://www.w3.org/2000/svg");
    }
}

#[test]
fn deceptive_characters_are_replaced() {
    let set = synthetic::hostile();
    let plain = summary(&set, Style { colour: false, width: 100 });
    let figures = figures(std::slice::from_ref(&set)).into_iter().flatten().map(|one| one.svg.to_string());
    for text in [html::report(std::slice::from_ref(&set)), plain].into_iter().chain(figures) {
        let odd =
            text.chars().find(|c| (c.is_control() && *c != '\n') || ('\u{202a}'..='\u{202e}').contains(c));
        assert_eq!(odd, None);
    }
}

/// Every name, reason and signal of a capture can be text of an attacker.
#[test]
fn text_from_captures_is_neither_markup_nor_a_terminal_sequence() {
    let document = synthetic::hostile_trace();
    let out = tempfile::tempdir().unwrap();
    let written = pathbench_report::trace::write(&document, &[], out.path(), FigureFormat::Svg).unwrap();
    let page = std::fs::read_to_string(&written.html).unwrap();
    assert!(page.contains("&lt;script&gt;alert") && !page.contains("<script"));
    let figures = written.figures.iter().map(|file| std::fs::read_to_string(file).unwrap());
    let plain = trace(&document, Style { colour: false, width: 80 });
    for text in
        std::iter::once(page).chain(figures).inspect(|text| assert!(!text.contains("<script"))).chain([plain])
    {
        assert_eq!(text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}'), None);
    }
}

#[test]
fn hostile_figures_are_still_pictures() {
    let figures: Vec<_> = figures(&[synthetic::hostile()]).into_iter().flatten().collect();
    assert!(figures.len() > 1);
    for figure in figures {
        assert!(raster::png(&figure.svg, 1.0).is_ok_and(|bytes| bytes.starts_with(b"\x89PNG")));
    }
}

#[test]
fn every_data_block_is_json_without_markup() {
    for set in [synthetic::hostile(), synthetic::failover(), synthetic::handover(), synthetic::walk()] {
        let page = html::report(&[set]);
        let parts = Parts::of(&page);
        assert!(parts.blocks.len() > 1);
        for block in parts.blocks {
            assert!(!block.contains(['<', '>']), "{block}");
            assert!(serde_json::from_str::<serde_json::Value>(block).is_ok(), "{block}");
        }
    }
}

#[test]
fn the_policy_permits_the_scripts_and_styles_of_the_page_only() {
    let page = html::report(&[synthetic::failover()]);
    let head = page.split_once("<head>").map_or("", |(_, rest)| rest);
    assert!(head.starts_with("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "));
    let policy = head.split('"').nth(3).unwrap_or_default();
    let parts = Parts::of(&page);
    assert_eq!((parts.scripts.len(), parts.styles.len()), (2, 3));
    let hashes = |texts: &[&str]| texts.iter().map(|text| hash(text)).collect::<Vec<_>>().join(" ");
    let sources = format!("; script-src {}; style-src {};", hashes(&parts.scripts), hashes(&parts.styles));
    assert!(policy.contains(&sources), "{policy}");
    assert!(!parts.rest.contains(" style=\""), "the policy blocks attributes with styles");
    assert!(policy.ends_with("; base-uri 'none'; form-action 'none'"), "{policy}");
}

/// The one script of the page of captures zooms its time-sequence graphs.
#[test]
fn a_page_with_time_sequence_graphs_has_one_script_and_is_bounded() {
    let mut lines = synthetic::sequences();
    let out = tempfile::tempdir().unwrap();
    let write = |lines: &[_]| {
        let written =
            pathbench_report::trace::write(&synthetic::traced(), lines, out.path(), FigureFormat::Svg)
                .unwrap();
        std::fs::read_to_string(written.html).unwrap()
    };
    let page = write(&lines);
    let parts = Parts::of(&page);
    assert_eq!((parts.scripts.len(), parts.styles.len(), parts.blocks.len()), (1, 2, 0));
    assert!(page.contains(&format!("; script-src {}; style-src", hash(parts.scripts[0]))));
    assert_eq!(page.matches("<svg class=\"zoom\"").count(), 3);
    // Hostile numbers, and many of them.
    for line in &mut lines {
        let mut last = line.segments[0].clone();
        (last.at_s, last.start, last.end) = (1e300, u64::MAX, 0);
        line.segments = vec![last; 200_000];
        line.acknowledgments = vec![(-1e300, u64::MAX); 200_000];
    }
    let page = write(&lines);
    assert!(page.len() < 4 << 20 && !page.contains("NaN"), "{} bytes", page.len());
}

fn hash(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    format!("'sha256-{}'", data_encoding::BASE64.encode(digest.as_ref()))
}
