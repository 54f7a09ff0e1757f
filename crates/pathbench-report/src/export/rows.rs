//! The rows of the tables, one at a time: what is in memory does not grow with the result.

use super::error::ResultExportError;
use super::table::{Column, ExportTable, Rows, tables};
use crate::result_set::ResultSet;
use pathbench_record::directory::for_each_line;
use pathbench_record::file;
use serde_json::{Map, Value, json};
use std::io;
use std::path::Path;

/// Takes the cells of a row, in the order of the columns; null where there is no value.
pub(super) type Sink<'a> = dyn FnMut(&[Value]) -> Result<(), ResultExportError> + 'a;

/// Passes every row of `table` to `sink`.
pub(super) fn each_row(
    table: &ExportTable,
    sets: &[ResultSet],
    names: &[String],
    sink: &mut Sink,
) -> Result<(), ResultExportError> {
    if table.rows == Rows::Columns {
        return tables().iter().filter(|one| one.name != table.name).try_for_each(|one| {
            one.columns.iter().try_for_each(|column| {
                let row = json!({
                    "table": one.name, "column": column.name, "type": column.kind.name(),
                    "meaning": column.meaning, "nullable": column.is_nullable,
                });
                pass(&table.columns, row, one.name, sink)
            })
        });
    }
    sets.iter().zip(names).try_for_each(|(set, name)| match table.rows {
        Rows::Lines(file) => lines(table, set, name, file, sink),
        _ => of_document(table, set, name, sink),
    })
}

fn of_document(
    table: &ExportTable,
    set: &ResultSet,
    name: &str,
    sink: &mut Sink,
) -> Result<(), ResultExportError> {
    let document = &set.document;
    let location = format!("run.json of {name}");
    let mut give = |mut row: Value, keys: &[(&str, Value)]| {
        row["result"] = name.into();
        for (key, value) in keys {
            row[key] = value.clone();
        }
        pass(&table.columns, row, &location, sink)
    };
    match table.rows {
        Rows::Runs => document.runs.iter().try_for_each(|run| give(json!(run), &[])),
        Rows::OfRuns(field) => document.runs.iter().try_for_each(|run| {
            let mut run = json!(run);
            let id = run["id"].take();
            items(run[field].take()).try_for_each(|row| give(row, &[("run", id.clone())]))
        }),
        Rows::OfSummary(field) => {
            items(json!(document.summary)[field].take()).try_for_each(|row| give(row, &[]))
        }
        Rows::Figures => document.summary.groups.iter().try_for_each(|group| {
            group.figures.iter().try_for_each(|(figure, distribution)| {
                let keys = [
                    ("variant", json!(group.variant)),
                    ("label", json!(group.label)),
                    ("pattern", json!(group.pattern)),
                    ("figure", json!(figure)),
                ];
                give(json!(distribution), &keys)
            })
        }),
        Rows::Lines(_) | Rows::Columns => Ok(()),
    }
}

fn items(list: Value) -> impl Iterator<Item = Value> {
    match list {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
    .into_iter()
}

/// The lines of a file that exists; an incomplete last line is left out, as by the reader.
fn lines(
    table: &ExportTable,
    set: &ResultSet,
    name: &str,
    file: &str,
    sink: &mut Sink,
) -> Result<(), ResultExportError> {
    let Some(path) = set.directory.as_ref().map(|directory| directory.join(file)) else { return Ok(()) };
    let opened = match file::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ResultExportError::in_file(&path)(error)),
    };
    for_each_line(&path, opened, |number, line| {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let location = || format!("{}:{number}", path.display());
        match serde_json::from_slice::<Map<String, Value>>(line) {
            Ok(mut row) => {
                row.insert("result".to_owned(), name.into());
                pass(&table.columns, Value::Object(row), &location(), sink)
            }
            // The last line, cut off.
            Err(_) if line.last() != Some(&b'\n') => Ok(()),
            Err(error) => Err(ResultExportError::Value { location: location(), problem: error.to_string() }),
        }
    })
}

/// Passes the cells of `row` to `sink`.
pub(super) fn pass(
    columns: &[Column],
    row: Value,
    location: &str,
    sink: &mut Sink,
) -> Result<(), ResultExportError> {
    let Value::Object(row) = row else { return Ok(()) };
    let cell = |column: &Column| {
        column.value(&row).ok_or_else(|| ResultExportError::Value {
            location: location.to_owned(),
            problem: format!("`{}` is not a value of type {}", column.name, column.kind.name()),
        })
    };
    let cells = columns.iter().map(cell).collect::<Result<Vec<_>, _>>()?;
    sink(&cells)
}

/// A name for each result: its directory's, with a number in front where several have the same.
pub(super) fn names(sets: &[ResultSet]) -> Vec<String> {
    let own = |set: &ResultSet| {
        let directory = set.directory.as_deref().and_then(|path| path.canonicalize().ok());
        let name = directory.as_deref().and_then(Path::file_name);
        name.map_or_else(|| set.document.scenario.name.clone(), |name| name.to_string_lossy().into_owned())
    };
    let names: Vec<String> = sets.iter().map(own).collect();
    let numbered = |(index, name): (usize, &String)| {
        let is_unique = names.iter().filter(|other| *other == name).count() == 1;
        if is_unique { name.clone() } else { format!("{}-{name}", index + 1) }
    };
    names.iter().enumerate().map(numbered).collect()
}
