//! Sentences about what limited the rate, with the remedy; none where the links did.

use crate::list::grouped;
use crate::quantity::counted;
use crate::view::{GroupView, View};
use pathbench_record::document::{LimitRecord, RunRecord};
use pathbench_record::sample::Side;

/// The limit that explains the rate of runs of one group, as its first such run has it.
pub(crate) struct NamedLimit<'a> {
    pub(crate) limit: &'a LimitRecord,
    runs: usize,
    of: usize,
}

impl NamedLimit<'_> {
    pub(crate) fn sentence(&self) -> String {
        let runs = if self.of > 1 {
            format!(" ({} of {})", self.runs, counted(self.of, "run"))
        } else {
            String::new()
        };
        format!("{}{runs}{}", title(self.limit), explanation(self.limit))
    }
}

/// `download, receive window of the client, path eth`
pub(crate) fn title(limit: &LimitRecord) -> String {
    let end = match limit.side {
        Some(Side::Client) => " at the client",
        Some(Side::Server) => " at the server",
        None => "",
    };
    let path = limit.path.as_ref().map_or(String::new(), |path| format!(", path {path}"));
    format!("{} limited by: {}{end}{path}", limit.direction.name(), limit.kind.words())
}

/// `: SIGNS. Remedy: COMMAND.`
pub(crate) fn explanation(limit: &LimitRecord) -> String {
    let remedy = match (&limit.remedy, limit.side) {
        (None, _) => String::new(),
        (Some(remedy), Some(Side::Client)) => format!(" Remedy, at the client: {remedy}"),
        (Some(remedy), Some(Side::Server)) => format!(" Remedy, at the server: {remedy}"),
        (Some(remedy), None) => format!(" Remedy: {remedy}"),
    };
    format!(": {}.{remedy}", limit.because)
}

/// One for each direction of a group: the most frequent first limit of its valid runs, if it is named.
pub(crate) fn of_group<'a>(group: &GroupView<'a>) -> Vec<NamedLimit<'a>> {
    let of = group.valid() as usize;
    let first = |run: &'a RunRecord| {
        let mut firsts: Vec<&LimitRecord> = Vec::new();
        for limit in run.limits.iter().filter(|limit| limit.named) {
            if !firsts.iter().any(|first| first.direction == limit.direction) {
                firsts.push(limit);
            }
        }
        firsts
    };
    let all = group.valid_runs().flat_map(first);
    let mut found: Vec<NamedLimit<'a>> = grouped(all, |limit| (limit.direction, limit.kind))
        .into_iter()
        .filter_map(|(_, all)| Some(NamedLimit { limit: *all.first()?, runs: all.len(), of }))
        .collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.runs));
    let mut known = Vec::new();
    found.retain(|one| {
        let is_first = !known.contains(&one.limit.direction);
        known.push(one.limit.direction);
        is_first
    });
    found
}

pub(crate) fn of_view<'a, 'b>(view: &'b View<'a>) -> Vec<(&'b GroupView<'a>, NamedLimit<'a>)> {
    let of_group = |group: &'b GroupView<'a>| of_group(group).into_iter().map(move |one| (group, one));
    view.groups.iter().flat_map(of_group).collect()
}
