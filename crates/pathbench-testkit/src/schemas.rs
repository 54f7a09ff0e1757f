//! Files of results against the JSON Schemas of docs/schema.

use crate::processes::checkout;
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{Validator, draft202012};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The files that are one JSON document; the others have one in each line.
const DOCUMENTS: [&str; 2] = ["run", "trace"];

static SCHEMAS: LazyLock<Vec<FileValidator>> = LazyLock::new(|| {
    let directory = checkout().join("docs/schema");
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let files = entries.flatten().map(|entry| entry.path());
    files
        .filter(|file| file.extension().is_some_and(|kind| kind == "json"))
        .map(|file| FileValidator::new(&file))
        .collect()
});

struct FileValidator {
    name: String,
    is_document: bool,
    validator: Validator,
}

impl FileValidator {
    fn new(schema: &Path) -> Self {
        let stem = schema.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_document = DOCUMENTS.contains(&stem.as_str());
        let name = if is_document { format!("{stem}.json") } else { format!("{stem}.jsonl") };
        let text = fs::read_to_string(schema).map_err(|error| error.to_string());
        let parsed = text.and_then(|text| text.parse::<Value>().map_err(|error| error.to_string()));
        // Checks the schema against the meta-schema as well.
        let compiled = parsed.and_then(|value| draft202012::new(&value).map_err(|error| error.to_string()));
        let validator = compiled.unwrap_or_else(|error| panic!("{}: {error}", schema.display()));
        Self { name, is_document, validator }
    }

    /// Appends the errors of the file in `directory`; returns the number of validated documents and lines.
    fn validate(&self, directory: &Path, errors: &mut Vec<String>) -> usize {
        let file = directory.join(&self.name);
        if !file.exists() {
            return 0;
        }
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) => {
                errors.push(format!("{}: {error}", file.display()));
                return 0;
            }
        };
        let texts: Vec<&str> = if self.is_document { vec![&text] } else { text.lines().collect() };
        for (text, number) in texts.iter().zip(1..) {
            let mut add = |location: String, problem: String| {
                errors.push(format!("{}:{number}: {location}: {problem}", file.display()));
            };
            // Not `serde_json::from_str`, which is generic: this crate would compile it, unoptimised.
            match text.parse::<Value>() {
                Ok(value) if self.validator.is_valid(&value) => {}
                Ok(value) => {
                    for error in self.validator.iter_errors(&value) {
                        add(json_path(error.instance_path()), error.to_string());
                    }
                }
                Err(error) => add("$".to_owned(), error.to_string()),
            }
        }
        texts.len()
    }
}

/// `$.runs[0].stall_ms`.
fn json_path(location: &Location) -> String {
    let segments = location.into_iter().map(|segment| match segment {
        LocationSegment::Index(index) => format!("[{index}]"),
        LocationSegment::Property(name) => format!(".{name}"),
    });
    std::iter::once("$".to_owned()).chain(segments).collect()
}

/// Validates the files in `directories` that have a schema.
///
/// # Errors
/// `FILE:LINE: $.PATH: PROBLEM` for each error, or that the directories have no such file.
///
/// # Panics
/// A schema is not valid.
pub fn validate_results(directories: &[PathBuf]) -> Result<(), String> {
    let mut errors = Vec::new();
    let files =
        directories.iter().flat_map(|directory| SCHEMAS.iter().map(move |schema| (directory, schema)));
    let count: usize = files.map(|(directory, schema)| schema.validate(directory, &mut errors)).sum();
    if count == 0 && errors.is_empty() {
        return Err(format!("no file of a result in {directories:?}"));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

/// The directories of finished results below `directory`, to a depth of four.
pub fn finished_results(directory: &Path) -> Vec<PathBuf> {
    fn walk(directory: &Path, depth: u32, found: &mut Vec<PathBuf>) {
        // The document of `pathbench run` has the same name.
        let document = fs::read_to_string(directory.join("run.json")).unwrap_or_default();
        if document.contains("\"pathbench.result/") || directory.join("trace.json").exists() {
            found.push(directory.to_owned());
        }
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                walk(&entry.path(), depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(directory, 4, &mut found);
    found
}
