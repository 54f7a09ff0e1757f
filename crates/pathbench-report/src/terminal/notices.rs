//! Groups of notices: in full with their remedies, or as a list.

use super::page::{Ink, Line, Page, Style, columns};
use crate::narrative::Tone;

/// A named state, its meaning and the remedy.
#[derive(Debug, Clone)]
pub struct Notice<'a> {
    pub name: String,
    pub found: &'a str,
    /// Empty if the state needs no explanation.
    pub meaning: &'a str,
    /// Commands or sentences.
    pub remedy: &'a [String],
}

#[derive(Debug, Clone)]
pub struct NoticeGroup<'a> {
    pub title: String,
    pub remark: &'a str,
    pub tone: Tone,
    /// One block per notice, with its meaning; otherwise a list.
    pub in_full: bool,
    pub notices: Vec<Notice<'a>>,
}

/// The groups in their order. Remedies in blocks are never truncated or wrapped, so that they can be copied.
pub fn notices(groups: &[NoticeGroup<'_>], style: Style) -> String {
    let mut page = Page::new(style);
    for group in groups {
        page.heading(&group.title, group.remark);
        if group.in_full { write_blocks(&mut page, group) } else { write_list(&mut page, group) }
    }
    page.text.trim_start().to_owned()
}

fn write_blocks(page: &mut Page, group: &NoticeGroup<'_>) {
    for (number, notice) in group.notices.iter().enumerate() {
        if number > 0 {
            page.line(Line::default());
        }
        page.paragraph(
            Line::new(Ink::from_tone(group.tone), &format!("  {}  ", notice.name)),
            Ink::Plain,
            notice.found,
        );
        page.paragraph(Line::new(Ink::Plain, "    "), Ink::Plain, notice.meaning);
        for step in notice.remedy {
            page.copyable(Line::new(Ink::Plain, "      "), step);
        }
    }
}

fn write_list(page: &mut Page, group: &NoticeGroup<'_>) {
    let width = group.notices.iter().map(|notice| columns(&notice.name)).max().unwrap_or(0);
    for notice in &group.notices {
        let start =
            Line::new(Ink::Plain, "  ").add(Ink::from_tone(group.tone), &notice.name).padded_to(width + 4);
        page.paragraph(start, Ink::Plain, notice.found);
        for step in notice.remedy {
            page.paragraph(Line::default().padded_to(width + 4), Ink::Dim, step);
        }
    }
}
