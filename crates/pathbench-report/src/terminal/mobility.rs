//! Handovers, a line per transport.

use super::page::{Ink, Line, Page, columns, fitted};
use crate::narrative::{REASONS, reason_title};
use crate::quantity::{duration, ratio, spread};
use crate::view::{View, variant_text};
use pathbench_record::document::{HandoverSummary, MobilitySummary};

/// Lines beyond this are left to the report.
const MOST_LINES: usize = 12;

/// How often the second path took over, why, for how long both were heard, and mptcp against mpquic.
pub(super) fn write(page: &mut Page, view: &View) {
    let summaries = &view.set.document.summary.mobility;
    let rows: Vec<(&MobilitySummary, &HandoverSummary)> = summaries
        .iter()
        .flat_map(|summary| summary.handovers.iter().map(move |one| (summary, one)))
        .collect();
    if rows.is_empty() {
        return;
    }
    page.heading("Handovers", "how often; why; how long the first path was heard beside the second");
    let name = |(summary, one): &(&MobilitySummary, &HandoverSummary)| {
        let variant = (!summary.variant.is_empty()).then(|| variant_text(&summary.variant));
        let parts: Vec<String> = std::iter::once(one.label.clone()).chain(variant).collect();
        fitted(&parts.join(" · "), 30)
    };
    let widest = rows.iter().map(|row| columns(&name(row))).max().unwrap_or(0);
    for row in rows.iter().take(MOST_LINES) {
        let start = Line::new().add(Ink::Strong, &format!("  {}", name(row))).padded_to(widest + 4);
        page.paragraph(start, Ink::Plain, &text(view, row.0, row.1));
    }
    if rows.len() > MOST_LINES {
        page.more(rows.len() - MOST_LINES);
    }
    let start = || Line::new().add(Ink::Plain, "  ");
    for (direction, ratios) in summaries.iter().take(1).flat_map(|summary| &summary.max_delay_ratios) {
        let Some(found) = spread(ratios, ratio) else { continue };
        let text = format!("slowest message of a run, {direction}, mptcp ÷ mpquic: {found}");
        page.paragraph(start(), Ink::Dim, &text);
    }
}

fn text(view: &View, summary: &MobilitySummary, one: &HandoverSummary) -> String {
    let handovers: Vec<_> = view
        .set
        .document
        .runs
        .iter()
        .filter(|run| run.valid && run.variant == summary.variant && run.label == one.label)
        .filter_map(|run| run.handover.as_ref())
        .collect();
    let mut parts = vec![match handovers.first() {
        Some(first) => {
            format!("{} → {} in {} of {} runs", first.from, first.to, one.handovers, one.runs)
        }
        None => return format!("none in {} runs", one.runs),
    }];
    let reasons: Vec<String> = REASONS
        .iter()
        .filter_map(|reason| Some(format!("{} {}", reason_title(*reason), one.reasons.get(reason)?)))
        .collect();
    parts.push(reasons.join(", "));
    let received: Vec<f64> = handovers.iter().filter_map(|handover| handover.duration_received_ms).collect();
    let abrupt = if one.abrupt > 0 { format!(", abrupt in {}", one.abrupt) } else { String::new() };
    // A range stays whole where the line breaks.
    let found = spread(&received, duration).map(|found| found.replace(' ', "\u{a0}"));
    parts.extend(found.map(|found| format!("{found}{abrupt}")));
    parts.join("; ")
}
