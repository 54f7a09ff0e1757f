//! The modules of a crate use each other without circles, so that each can be understood and changed with those below it.
//! A child that uses its parent's items, whose parent uses the child's, is a circle, too. `mod` and re-exports are no use;
//! who uses a re-exported item uses the module that has it.

use crate::sources::{Source, is_for_tests, sources};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// Module → the modules that it uses, by their paths in the crate.
type Uses = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Module and name of a re-export → the path of the item, perhaps another re-export.
type Exports = BTreeMap<(Vec<String>, String), Vec<String>>;

#[test]
fn modules_use_each_other_without_circles() {
    let mut packages: BTreeMap<String, Vec<Source>> = BTreeMap::new();
    for source in sources() {
        packages.entry(source.package.clone()).or_default().push(source);
    }
    let circles: Vec<String> = packages
        .iter()
        .flat_map(|(package, sources)| {
            circles(&uses(sources)).into_iter().map(move |one| format!("{package}: {one}"))
        })
        .collect();
    assert!(circles.is_empty(), "{} arrows in circles:\n{}", circles.len(), circles.join("\n"));
}

#[test]
fn arrows_are_found_in_uses_paths_and_macros() {
    let source = |module: &[&str], text: &str| Source {
        package: String::new(),
        path: "x.rs".into(),
        module: module.iter().map(|&name| name.to_owned()).collect(),
        syntax: syn::parse_file(text).unwrap(),
    };
    let sources = [
        source(
            &["a"],
            "pub use b::B; mod b; use crate::c::{d::D, E, G}; #[cfg(test)] mod tests { use crate::f::F; }",
        ),
        source(&["a", "b"], "fn b() { super::f(crate::c::E); }"),
        source(
            &["c"],
            "pub(crate) use crate::f::F as G; fn c() -> String { format!(\"{}\", crate::a::b::N) }",
        ),
        source(&["c", "d"], "use crate::a::B;"),
        source(&["f"], "pub use crate::c::G; use G as H;"),
    ];
    let found: Vec<String> = uses(&sources)
        .iter()
        .flat_map(|(from, all)| all.iter().map(move |to| format!("{} {}", from.join("::"), to.join("::"))))
        .collect();
    assert_eq!(found, ["a c", "a c::d", "a f", "a::b a", "a::b c", "c a::b", "c::d a::b"]);
    assert_eq!(circles(&uses(&sources)).len(), 6, "a, a::b, c, c::d");
}

fn uses(sources: &[Source]) -> Uses {
    let modules: BTreeSet<Vec<String>> = sources.iter().map(|source| source.module.clone()).collect();
    let mut exports = Exports::new();
    let arrows = |source: &Source, exports: &Exports| {
        let mut arrows = Arrows::new(&modules, exports, &source.module);
        arrows.visit_file(&source.syntax);
        (arrows.found, arrows.exported)
    };
    for source in sources {
        exports.extend(arrows(source, &Exports::new()).1);
    }
    let mut uses = Uses::new();
    for source in sources {
        uses.entry(source.module.clone()).or_default().extend(arrows(source, &exports).0);
    }
    uses
}

/// The arrows that are part of a circle.
fn circles(uses: &Uses) -> Vec<String> {
    let reachable = |from: &Vec<String>| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(module) = open.pop() {
            for next in uses.get(module).into_iter().flatten() {
                if reached.insert(next) {
                    open.push(next);
                }
            }
        }
        reached
    };
    let reached: BTreeMap<&Vec<String>, _> = uses.keys().map(|module| (module, reachable(module))).collect();
    let arrows = uses.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to)));
    arrows
        .filter(|(from, to)| reached.get(to).is_some_and(|back| back.contains(from)))
        .map(|(from, to)| format!("{} -> {}", from.join("::"), to.join("::")))
        .collect()
}

struct Arrows<'a> {
    modules: &'a BTreeSet<Vec<String>>,
    exports: &'a Exports,
    module: &'a [String],
    /// Of inline modules.
    depth: usize,
    found: BTreeSet<Vec<String>>,
    exported: Exports,
}

impl<'a> Arrows<'a> {
    fn new(modules: &'a BTreeSet<Vec<String>>, exports: &'a Exports, module: &'a [String]) -> Self {
        Self { modules, exports, module, depth: 0, found: BTreeSet::new(), exported: Exports::new() }
    }

    /// The module of a path, and the rest of the path; `None` for other crates and imported names.
    fn resolve<'p>(&self, path: &'p [String]) -> Option<(Vec<String>, &'p [String])> {
        let mut path = path;
        let mut whole: Vec<String> = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self") => self.module.to_vec(),
            Some("super") => {
                let up = path.iter().take_while(|name| *name == "super").count();
                path = &path[up - 1..];
                let up = up.saturating_sub(self.depth);
                self.module[..self.module.len().saturating_sub(up)].to_vec()
            }
            // A child, or a name of another crate or import.
            Some(name) => {
                let child: Vec<String> = self.module.iter().cloned().chain([name.to_owned()]).collect();
                if !self.modules.contains(&child) {
                    return None;
                }
                path = &path[1..];
                child
            }
            None => return None,
        };
        if matches!(path.first().map(String::as_str), Some("crate" | "self" | "super")) {
            path = &path[1..];
        }
        while let Some((name, rest)) = path.split_first() {
            whole.push(name.clone());
            if !self.modules.contains(&whole) {
                whole.pop();
                break;
            }
            path = rest;
        }
        Some((whole, path))
    }

    fn add(&mut self, path: &[String]) {
        let Some((mut module, mut rest)) = self.resolve(path) else { return };
        while let Some(item) = rest.first().and_then(|name| self.exports.get(&(module.clone(), name.clone())))
        {
            let depth = (1..=item.len()).rev().find(|depth| self.modules.contains(&item[..*depth]));
            let (home, name) = item.split_at(depth.unwrap_or(0));
            (module, rest) = (home.to_vec(), name);
        }
        if module != self.module {
            self.found.insert(module);
        }
    }

    fn add_export(&mut self, path: &[String], name: &str) {
        if let Some((module, rest)) = self.resolve(path) {
            let item = module.iter().chain(rest).cloned().collect();
            self.exported.insert((self.module.to_vec(), name.to_owned()), item);
        }
    }

    fn add_tree(&mut self, prefix: &[String], tree: &syn::UseTree, is_export: bool) {
        let with = |name: &syn::Ident| prefix.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            syn::UseTree::Path(path) => self.add_tree(&with(&path.ident), &path.tree, is_export),
            syn::UseTree::Name(name) if is_export => {
                self.add_export(&with(&name.ident), &name.ident.to_string());
            }
            syn::UseTree::Rename(name) if is_export => {
                self.add_export(&with(&name.ident), &name.rename.to_string());
            }
            syn::UseTree::Name(name) if name.ident == "self" => self.add(prefix),
            syn::UseTree::Name(name) => self.add(&with(&name.ident)),
            syn::UseTree::Rename(name) => self.add(&with(&name.ident)),
            syn::UseTree::Glob(_) if is_export => {}
            syn::UseTree::Glob(_) => self.add(prefix),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_tree(prefix, tree, is_export));
            }
        }
    }

    /// The paths in the arguments of a macro.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.add_from_macro(&path);
                        path.clear();
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                other => {
                    self.add_from_macro(&path);
                    path.clear();
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.add_tokens(group.stream());
                    }
                }
            }
        }
        self.add_from_macro(&path);
    }

    /// A single name is a variable.
    fn add_from_macro(&mut self, path: &[String]) {
        if path.len() > 1 {
            self.add(path);
        }
    }
}

impl<'a> Visit<'a> for Arrows<'_> {
    fn visit_item(&mut self, item: &'a syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        self.depth += 1;
        visit::visit_item_mod(self, item);
        self.depth -= 1;
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.add_tree(&[], &item.tree, !matches!(item.vis, syn::Visibility::Inherited));
    }

    // `pub(in crate::…)` uses nothing.
    fn visit_visibility(&mut self, _: &'a syn::Visibility) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.segments.len() > 1 {
            let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.add(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.add_tokens(call.tokens.clone());
    }
}
