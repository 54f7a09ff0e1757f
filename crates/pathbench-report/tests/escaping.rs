//! Text from results never becomes markup.

mod synthetic;

use pathbench_report::terminal::{Style, summary};
use pathbench_report::{figures, html, raster};

#[test]
fn names_from_files_do_not_become_markup() {
    let page = html::report(&[synthetic::hostile()]);
    assert!(page.contains("&lt;script&gt;alert"), "the name is shown");
    assert!(!page.contains("<script"), "and not run");
    // Only the report's own style element, figures and preformatted text have closing tags.
    assert_eq!(page.matches("</style>").count(), 1);
    assert_eq!(page.matches("<pre>").count(), page.matches("</pre>").count());
    assert_eq!(page.matches("<svg ").count(), page.matches("</svg>").count());
}

#[test]
fn the_report_needs_nothing_from_elsewhere() {
    let page = html::report(&[synthetic::failover()]);
    for outside in ["src=", "<link", "@import", "url(", "<script", "<iframe"] {
        assert!(!page.contains(outside), "{outside} in the report");
    }
    let addresses = page.match_indices("http").map(|(at, _)| &page[at..(at + 26).min(page.len())]);
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

#[test]
fn hostile_figures_are_still_pictures() {
    let figures: Vec<_> = figures(&[synthetic::hostile()]).into_iter().flatten().collect();
    assert!(figures.len() > 1);
    for figure in figures {
        assert!(raster::png(&figure.svg, 1.0).is_ok_and(|bytes| bytes.starts_with(b"\x89PNG")));
    }
}
