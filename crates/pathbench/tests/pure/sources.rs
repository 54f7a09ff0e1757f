//! The sources of the workspace, parsed.

use std::fs;
use std::path::{Path, PathBuf};

/// A file below `src` of a crate.
pub(crate) struct Source {
    /// Of the crate, as `pathbench-link`.
    pub(crate) package: String,
    pub(crate) path: PathBuf,
    /// The module's path in its crate; empty for the root.
    pub(crate) module: Vec<String>,
    pub(crate) syntax: syn::File,
}

/// All files below `crates/*/src`.
pub(crate) fn sources() -> Vec<Source> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for package in entries(crates) {
        let src = package.join("src");
        let mut directories = vec![src.clone()];
        while let Some(directory) = directories.pop() {
            for path in entries(&directory) {
                if path.is_dir() {
                    directories.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = fs::read_to_string(&path).unwrap();
                    let syntax = syn::parse_file(&text).unwrap();
                    let name = package.file_name().unwrap().to_str().unwrap().to_owned();
                    let module = module(path.strip_prefix(&src).unwrap());
                    found.push(Source { package: name, path, module, syntax });
                }
            }
        }
    }
    assert!(found.len() > 500, "{} files", found.len());
    found
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn module(file: &Path) -> Vec<String> {
    let whole = file.with_extension("");
    let mut names: Vec<String> = whole.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib")) {
        names.pop();
    }
    names
}

/// Whether an item is for tests only.
pub(crate) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => attribute.path().is_ident("cfg") && list.tokens.to_string().contains("test"),
        _ => attribute.path().is_ident("test"),
    })
}
