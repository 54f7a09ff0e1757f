//! The page of the analysis of captures. Its script zooms time-sequence graphs.

use super::blocks::sections;
use super::{CSS, drawn_one, whole};
use crate::figure::Figure;
use crate::figure::trace::{ConnectionFigures, figures};
use crate::section::trace::{of_connection, opening};
use maud::html;
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
    let content = html! {
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
    };
    (whole(&title, &content, scripts, styles), drawn.into_iter().flat_map(|one| one.figures).collect())
}
