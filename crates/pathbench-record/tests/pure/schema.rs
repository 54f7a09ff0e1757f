//! The JSON Schemas in docs/schema and the tables of docs/results.md and docs/trace.md are those of the types.
//! `PATHBENCH_BLESS=1 cargo test -p pathbench-record --test pure schema` rewrites both.

use pathbench_record::schema::{FILES, FileSchema, SEQUENCE, STREAM, TRACE};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- fields of ";
const END: &str = "<!-- end of fields -->";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn assert_current(file: &Path, current: &str) {
    if std::env::var_os("PATHBENCH_BLESS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, current).unwrap();
    }
    let stored = fs::read_to_string(file).unwrap_or_default();
    assert!(stored == current, "{} differs from the types; PATHBENCH_BLESS=1 rewrites it", file.display());
}

#[test]
fn the_schemas_are_those_of_the_types() {
    for file in FILES.into_iter().chain([TRACE, SEQUENCE, STREAM]) {
        let text = serde_json::to_string_pretty(&file.schema()).unwrap() + "\n";
        assert_current(&docs().join(format!("schema/{}.json", file.name)), &text);
    }
}

/// A type of a file with its fields.
struct Type<'a> {
    name: &'a str,
    schema: &'a Map<String, Value>,
}

/// The root and the objects in `$defs`, in the order of the schema.
fn types(schema: &Value) -> Vec<Type<'_>> {
    let root = schema.as_object().unwrap();
    let named = root.get("$defs").and_then(Value::as_object).into_iter().flatten();
    let all = named.map(|(name, schema)| (name.as_str(), schema.as_object().unwrap()));
    let all = [(root["title"].as_str().unwrap(), root)].into_iter().chain(all);
    all.filter(|(_, schema)| schema.contains_key("properties"))
        .map(|(name, schema)| Type { name, schema })
        .collect()
}

/// The values of an enum with their descriptions.
fn values(schema: &Value) -> Vec<(&str, &str)> {
    let documented = schema["oneOf"].as_array().into_iter().flatten();
    let documented = documented.flat_map(|one| {
        let description = one["description"].as_str().unwrap_or_default();
        let plain = one["enum"].as_array().into_iter().flatten().chain(one.get("const"));
        plain.map(move |value| (value.as_str().unwrap(), description))
    });
    let plain = schema["enum"].as_array().into_iter().flatten().map(|value| (value.as_str().unwrap(), ""));
    documented.chain(plain).collect()
}

fn of_type(property: &Value, schema: &Value) -> String {
    if let Some(name) = property["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        let definition = &schema["$defs"][name];
        let values: Vec<String> = values(definition).iter().map(|(value, _)| format!("`{value}`")).collect();
        return match definition.get("properties") {
            Some(_) => format!("`{name}`"),
            None if values.is_empty() => of_type(definition, schema),
            None => values.join(", "),
        };
    }
    let kind = property["type"].as_str().map(str::to_owned).or_else(|| {
        let kinds: Vec<&str> = property["type"].as_array()?.iter().filter_map(Value::as_str).collect();
        Some(kinds.join(" or "))
    });
    match kind.as_deref() {
        Some("integer") if property["minimum"] == 0 => "integer ≥ 0".to_owned(),
        Some("array") => format!("array of {}", of_type(&property["items"], schema)),
        Some("object") => match &property["additionalProperties"] {
            Value::Object(_) => format!("object → {}", of_type(&property["additionalProperties"], schema)),
            _ => match property["patternProperties"].as_object().and_then(|all| all.values().next()) {
                Some(of_key) => format!("object → {}", of_type(of_key, schema)),
                None => "object".to_owned(),
            },
        },
        Some(kind) => kind.to_owned(),
        None => "any".to_owned(),
    }
}

fn meaning(property: &Value, schema: &Value) -> String {
    let told = property["description"].as_str().unwrap_or_default().replace('|', "\\|");
    let mut text = told.clone();
    let name = property["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    for (value, description) in name.map(|name| values(&schema["$defs"][name])).unwrap_or_default() {
        if !description.is_empty() && !told.contains(&format!("`{value}`")) {
            text.extend([" `", value, "`: ", description]);
        }
    }
    text
}

fn table(of: &Type, schema: &Value) -> String {
    let required: Vec<&str> = of
        .schema
        .get("required")
        .and_then(Value::as_array)
        .map_or_else(Vec::new, |names| names.iter().filter_map(Value::as_str).collect());
    let rows = of.schema["properties"].as_object().unwrap().iter().map(|(field, property)| {
        let absent = if required.contains(&field.as_str()) { "" } else { "; may be absent" };
        let meaning = meaning(property, schema);
        assert!(!meaning.is_empty(), "`{field}` of {} has no doc comment", of.name);
        format!("| `{field}` | {}{absent} | {meaning} |\n", of_type(property, schema))
    });
    format!("`{}`:\n\n| field | type | meaning |\n|---|---|---|\n{}", of.name, rows.collect::<String>())
}

#[test]
fn the_tables_of_fields_are_those_of_the_types() {
    tables_are_current("results.md", &FILES);
    tables_are_current("trace.md", &[TRACE, SEQUENCE]);
}

fn tables_are_current(name: &str, files: &[FileSchema]) {
    let file = docs().join(name);
    let mut text = fs::read_to_string(&file).unwrap();
    let mut seen = BTreeSet::new();
    for schema in files.iter().map(FileSchema::schema) {
        for of in types(&schema).into_iter().filter(|of| seen.insert(of.name.to_owned())) {
            let begin = format!("{BEGIN}{} -->\n", of.name);
            let at = text.find(&begin).unwrap_or_else(|| {
                panic!("docs/{name} lacks the table of {0}: add `{BEGIN}{0} -->` and `{END}`", of.name)
            });
            let from = at + begin.len();
            let to = from + text[from..].find(END).expect("the end of the table");
            text.replace_range(from..to, &table(&of, &schema));
        }
    }
    assert_eq!(text.matches(BEGIN).count(), seen.len(), "docs/{name} has a table of an unknown type");
    assert_current(&file, &text);
}
