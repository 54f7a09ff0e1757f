//! The findings for a person: problems first, then advice, what was not examined, and what is in order.

use pathbench_check::finding::{Finding, Level};
use pathbench_report::narrative::Tone;
use pathbench_report::quantity::counted;
use pathbench_report::terminal::{Notice, NoticeGroup, Style, notices};

pub(super) fn summary(findings: &[Finding], style: Style) -> String {
    let group = |level| {
        let of: Vec<_> = findings.iter().filter(|finding| finding.level == level).map(notice).collect();
        let (title, remark, tone) = match level {
            Level::Problem if of.is_empty() => ("No problem found".to_owned(), "", Tone::Good),
            Level::Problem => (counted(of.len(), "problem"), "causes first; commands as root", Tone::Bad),
            Level::Advice => ("Advice".to_owned(), "", Tone::Mixed),
            Level::NotExamined => ("Not examined".to_owned(), "", Tone::Neutral),
            Level::Ok => ("In order".to_owned(), "", Tone::Good),
        };
        NoticeGroup { title, remark, tone, in_full: level >= Level::Advice, notices: of }
    };
    let groups = [Level::Problem, Level::Advice, Level::NotExamined, Level::Ok].map(group);
    let shown: Vec<NoticeGroup<'_>> = groups
        .into_iter()
        .enumerate()
        .filter(|(index, group)| *index == 0 || !group.notices.is_empty())
        .map(|(_, group)| group)
        .collect();
    notices(&shown, style)
}

fn notice(finding: &Finding) -> Notice<'_> {
    // The subject, unless the finding's text contains it.
    let subject = finding.subject.as_deref().filter(|subject| !finding.found.contains(subject));
    let name = finding.id.name();
    Notice {
        name: subject.map_or_else(|| name.to_owned(), |subject| format!("{name} {subject}")),
        found: &finding.found,
        meaning: &finding.meaning,
        remedy: &finding.remedy,
    }
}
