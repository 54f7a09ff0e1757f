//! Shards of a study given to `report`: they become one result.

use crate::result::{create_result, open, remove_empty};
use pathbench_lab::study::{ShardResult, join};
use pathbench_program::exit::Failure;
use pathbench_record::directory::ResultWriter;
use pathbench_record::document::ResultDocument;
use pathbench_report::ResultSet;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(super) fn is_shard(set: &ResultSet) -> bool {
    set.document.study.as_ref().is_some_and(|study| study.shard.is_some())
}

/// Joins `sets` to a new result in `out`, or next to other results. The shards stay as they are.
pub(super) fn join_captures(
    sets: Vec<ResultSet>,
    out: Option<&Path>,
    is_partial: bool,
) -> Result<ResultSet, Failure> {
    let shards: Vec<ShardResult> = sets
        .into_iter()
        .map(|set| ShardResult { directory: set.directory.unwrap_or_default(), document: set.document })
        .collect();
    let sources: Vec<(PathBuf, Vec<String>)> = shards
        .iter()
        .map(|one| (one.directory.clone(), one.document.runs.iter().map(|run| run.id.clone()).collect()))
        .collect();
    let document = join(shards, is_partial).map_err(Failure::bad_input)?;
    let writer = create_result(out, &document.scenario.name, &document.host.started)?;
    let directory = writer.path.clone();
    write(writer, &sources, &document).inspect_err(|_| remove_empty(&directory))?;
    open(&directory)
}

fn write(
    mut writer: ResultWriter,
    sources: &[(PathBuf, Vec<String>)],
    document: &ResultDocument,
) -> Result<(), Failure> {
    for (directory, ids) in sources {
        let ids: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
        writer.append_lines_of(directory, &ids).map_err(Failure::bad_input)?;
    }
    writer.finish(document).map(drop).map_err(Failure::failed)
}
