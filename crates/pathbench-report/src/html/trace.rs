//! The page of the analysis of captures. Its script zooms time-sequence graphs.

use super::blocks::sections;
use super::{CSS, drawn_one, harmless, policy};
use crate::figure::Figure;
use crate::figure::trace::{ConnectionFigures, figures};
use crate::section::trace::{of_connection, opening};
use maud::{DOCTYPE, PreEscaped, html};
use pathbench_record::text::duration_s;
use pathbench_record::trace::{SequenceLine, TraceDocument};

const ZOOM: &str = include_str!("../../assets/zoom.js");
const ZOOM_CSS: &str = include_str!("../../assets/zoom.css");

/// The self-contained page, and the figures in it. Everything that comes from a capture is escaped.
pub(crate) fn page(document: &TraceDocument, lines: &[SequenceLine]) -> (String, Vec<Figure>) {
    let drawn = figures(document, lines);
    let is_zoomable = drawn.iter().flat_map(|one| &one.figures).any(|one| one.name.contains("-sequence-"));
    let names: Vec<&str> =
        document.captures.iter().map(|one| one.file.rsplit('/').next().unwrap_or_default()).collect();
    let title = if names.is_empty() { "Captures".to_owned() } else { names.join(", ") };
    let of = |connection: u64| -> &[Figure] {
        let found = drawn.iter().find(|one| one.connection == connection);
        found.map_or(&[], |one: &ConnectionFigures| one.figures.as_slice())
    };
    let styles = [CSS.as_str(), ZOOM_CSS];
    let styles = if is_zoomable { &styles[..] } else { &styles[..1] };
    let scripts: &[&str] = if is_zoomable { &[ZOOM] } else { &[] };
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (policy::meta(scripts, styles))
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content="Pathbench";
                title { (title) " – Pathbench" }
                @for style in styles { style { (PreEscaped(style)) } }
            }
            body {
                a.skip href="#content" { "Skip to the results" }
                main #content tabindex="-1" {
                    article {
                        header {
                            h1 { (title) }
                            p.facts {
                                span { (document.started) }
                                span { (duration_s(document.duration_s)) }
                            }
                        }
                        (sections(opening(document)))
                        @for connection in &document.connections {
                            (sections(of_connection(connection, &document.captures)))
                            @let figures = of(connection.id);
                            @if !figures.is_empty() {
                                div.static { @for one in figures { (drawn_one(one)) } }
                            }
                        }
                    }
                }
                @for script in scripts { script { (PreEscaped(script)) } }
            }
        }
    };
    (harmless(markup.into_string()), drawn.into_iter().flat_map(|one| one.figures).collect())
}
