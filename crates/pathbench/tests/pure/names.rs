//! Names say what they are: see "Names" in CONTRIBUTING.md.

use crate::sources::{is_for_tests, sources};
use std::collections::BTreeMap;
use std::fs;
use syn::visit::{self, Visit};

const PREPOSITIONS: [&str; 26] = [
    "about", "above", "after", "at", "before", "below", "beside", "between", "by", "during", "for", "from",
    "in", "into", "of", "off", "on", "over", "per", "since", "through", "to", "under", "until", "with",
    "within",
];

/// First words of doc comments that have no subject.
const NO_SUBJECT: [&str; 6] = ["It", "That", "What", "Whatever", "Who", "Whoever"];

/// Crates whose names do not keep the rules yet.
const OPEN: [&str; 10] = [
    "pathbench-analysis",
    "pathbench-api",
    "pathbench-check",
    "pathbench-collector",
    "pathbench-emulator",
    "pathbench-host",
    "pathbench-link",
    "pathbench-mpquic",
    "pathbench-record",
    "pathbench-trace",
];

#[test]
fn functions_are_not_named_by_a_preposition_alone() {
    let names = Names::of_workspace();
    assert!(names.functions.len() > 2000, "{} functions", names.functions.len());
    let wrong: Vec<&String> = names
        .functions
        .iter()
        .filter(|(_, name)| PREPOSITIONS.contains(&name.as_str()))
        .map(|(at, _)| at)
        .collect();
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
}

#[test]
fn a_public_type_name_stands_for_one_type() {
    let names = Names::of_workspace();
    let mut types: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (at, name) in &names.types {
        types.entry(name).or_default().push(at);
    }
    assert!(types.len() > 200, "{} types", types.len());
    types.retain(|_, all| all.len() > 1);
    assert!(types.is_empty(), "{}: {types:#?}", types.len());
}

#[test]
fn comments_name_their_subject() {
    let names = Names::of_workspace();
    assert!(names.comments.len() > 1500, "{} comments", names.comments.len());
    let is_wrong = |text: &str| NO_SUBJECT.contains(&text.split_whitespace().next().unwrap_or_default());
    let wrong: Vec<&(String, String)> = names.comments.iter().filter(|(_, text)| is_wrong(text)).collect();
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
}

#[test]
fn nothing_is_named_place() {
    let is_place =
        |name: &str| name.to_lowercase().split('_').any(|word| word == "place" || word == "places");
    let names = Names::of_workspace();
    let wrong: Vec<&str> =
        names.all.iter().filter(|(_, name)| is_place(name)).map(|(at, _)| at.as_str()).collect();
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
}

/// Names with their file and line.
#[derive(Default)]
struct Names {
    file: String,
    functions: Vec<(String, String)>,
    types: Vec<(String, String)>,
    /// First lines of doc comments.
    comments: Vec<(String, String)>,
    /// Of functions, types, fields, modules, variables.
    all: Vec<(String, String)>,
}

impl Names {
    fn of_workspace() -> Self {
        let mut names = Self::default();
        for source in sources().iter().filter(|source| !OPEN.contains(&source.package.as_str())) {
            names.file = format!("{} {}", source.package, source.module.join("::"));
            names.visit_file(&source.syntax);
            names.add_comments(&fs::read_to_string(&source.path).unwrap());
        }
        names
    }

    fn add_comments(&mut self, text: &str) {
        let mut before = None;
        for line in text.lines().map(str::trim_start) {
            let comment = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "));
            if let (Some(comment), None) = (comment, before) {
                self.comments.push((format!("{}: {comment}", self.file), comment.to_owned()));
            }
            before = comment;
        }
    }

    fn entry(&self, name: &syn::Ident) -> (String, String) {
        (format!("{}: {name}", self.file), name.to_string())
    }

    fn add_type(&mut self, visibility: &syn::Visibility, name: &syn::Ident) {
        if matches!(visibility, syn::Visibility::Public(_)) {
            self.types.push(self.entry(name));
        }
    }
}

impl<'a> Visit<'a> for Names {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.functions.push(self.entry(&item.sig.ident));
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if item.trait_.is_none() {
            for member in &item.items {
                if let syn::ImplItem::Fn(function) = member {
                    self.functions.push(self.entry(&function.sig.ident));
                }
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        self.functions.push(self.entry(&item.sig.ident));
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.add_type(&item.vis, &item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
        self.add_type(&item.vis, &item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.add_type(&item.vis, &item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'a syn::ItemType) {
        self.add_type(&item.vis, &item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_ident(&mut self, name: &'a syn::Ident) {
        self.all.push(self.entry(name));
    }
}
