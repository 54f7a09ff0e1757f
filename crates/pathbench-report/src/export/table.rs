//! The tables of an export: their columns come from the types of the result's files, so that all formats and
//! docs/results.md have the same names, types and meanings.

use pathbench_record::schema::FileSchema;
use serde_json::{Map, Value};

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    Boolean,
    /// 64 bits, signed.
    Integer,
    /// 64 bits, unsigned.
    Unsigned,
    /// 64 bits, floating point.
    Number,
    Text,
    /// A list or map, as JSON text.
    Json,
}

impl ColumnType {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Unsigned => "unsigned integer",
            Self::Number => "number",
            Self::Text => "text",
            Self::Json => "JSON text",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Column {
    /// The field's name; of a field within another object `OBJECT_FIELD`.
    pub name: String,
    pub kind: ColumnType,
    pub is_nullable: bool,
    pub meaning: String,
    /// The keys that lead to the value from the row's object.
    key_path: Vec<String>,
}

impl Column {
    /// A column that is no field of the row's type.
    pub(super) fn key(name: &str, meaning: &str) -> Self {
        let key_path = vec![name.to_owned()];
        Self {
            name: name.to_owned(),
            kind: ColumnType::Text,
            is_nullable: false,
            meaning: meaning.to_owned(),
            key_path,
        }
    }

    /// The value in `row`; null if it is absent. `None` if it is of another type.
    pub(super) fn value(&self, row: &Map<String, Value>) -> Option<Value> {
        let mut keys = self.key_path.iter();
        let mut found = keys.next().and_then(|key| row.get(key));
        for key in keys {
            found = found.and_then(|value| match value {
                Value::Array(items) => items.get(key.parse::<usize>().ok()?),
                value => value.get(key),
            });
        }
        let Some(value) = found.filter(|value| !value.is_null()) else {
            return self.is_nullable.then_some(Value::Null);
        };
        match self.kind {
            ColumnType::Boolean => value.as_bool().map(Value::Bool),
            ColumnType::Integer => value.as_i64().map(Value::from),
            ColumnType::Unsigned => value.as_u64().map(Value::from),
            ColumnType::Number => value.as_f64().map(Value::from),
            ColumnType::Text => value.as_str().map(Value::from),
            ColumnType::Json => Some(Value::String(value.to_string())),
        }
    }
}

/// The objects that are a table's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    Runs,
    /// The list in this field of each run.
    OfRuns(&'static str),
    /// The list in this field of the summary.
    OfSummary(&'static str),
    /// The distributions of the summary's groups.
    Figures,
    /// The lines of this file.
    Lines(&'static str),
    /// The columns of the other tables.
    Columns,
}

#[derive(Debug, Clone)]
pub struct ExportTable {
    /// Also the name of its file.
    pub name: &'static str,
    pub columns: Vec<Column>,
    pub(super) rows: Rows,
}

/// Every table, in a fixed order.
pub fn tables() -> Vec<ExportTable> {
    let run = FileSchema::named("run").map_or(Value::Null, |file| file.schema());
    let result = || Column::key("result", "The result's name: its directory's.");
    let of_type = |name, rows, keys: Vec<Column>, of: &str| ExportTable {
        name,
        columns: of_fields(&run, of, keys),
        rows,
    };
    let of_run = || vec![result(), Column::key("run", "The run's `id`.")];
    let mut tables = vec![of_type("runs", Rows::Runs, vec![result()], "RunRecord")];
    for (name, of) in [
        ("paths", "PathRecord"),
        ("directions", "DirectionRecord"),
        ("impacts", "Impact"),
        ("phases", "Phase"),
        ("diagnoses", "PathDiagnosis"),
    ] {
        tables.push(of_type(name, Rows::OfRuns(name), of_run(), of));
    }
    let group = |name: &str| {
        let meaning = run["$defs"]["Group"]["properties"][name]["description"].as_str().unwrap_or_default();
        Column::key(name, meaning)
    };
    let variant = Column { kind: ColumnType::Json, ..group("variant") };
    let figure = Column::key("figure", "The figure's name.");
    let keys = vec![result(), variant, group("label"), group("pattern"), figure];
    tables.push(of_type("figures", Rows::Figures, keys, "Distribution"));
    if run["$defs"].get("Comparison").is_some() {
        tables.push(of_type("comparisons", Rows::OfSummary("comparisons"), vec![result()], "Comparison"));
    }
    for file in pathbench_record::schema::FILES.into_iter().filter(|file| file.name != "run") {
        let schema = file.schema();
        let mut columns = vec![result()];
        Fields { schema: &schema, columns: &mut columns }.add_object(&schema, "", &[], false);
        tables.push(ExportTable { name: file.name, columns, rows: Rows::Lines(file.file) });
    }
    let described = [
        ("table", "The table."),
        ("column", "The column."),
        ("type", "Its type."),
        ("meaning", "Its meaning."),
    ];
    let mut columns: Vec<Column> =
        described.into_iter().map(|(name, meaning)| Column::key(name, meaning)).collect();
    columns.push(Column { kind: ColumnType::Boolean, ..Column::key("nullable", "Whether it can be null.") });
    tables.push(ExportTable { name: "columns", columns, rows: Rows::Columns });
    tables
}

/// The columns of the type `of` in the definitions of `schema`, after `keys`.
pub(super) fn of_fields(schema: &Value, of: &str, keys: Vec<Column>) -> Vec<Column> {
    let mut columns = keys;
    Fields { schema, columns: &mut columns }.add_object(&schema["$defs"][of], "", &[], false);
    columns
}

/// Collects the columns of a type.
struct Fields<'a> {
    schema: &'a Value,
    columns: &'a mut Vec<Column>,
}

impl Fields<'_> {
    /// Adds the fields of an object, except lists of objects, which are tables of their own or stay in `run.json`.
    fn add_object(&mut self, object: &Value, prefix: &str, key_path: &[String], is_nullable: bool) {
        let required = object["required"].as_array();
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
        for (name, property) in object["properties"].as_object().into_iter().flatten() {
            let field = self.resolved(property);
            let is_nullable = is_nullable || !is_required(name) || field["type"].is_array();
            let key_path: Vec<String> = key_path.iter().cloned().chain([name.clone()]).collect();
            let name = format!("{prefix}{name}");
            if field.get("properties").is_some() {
                self.add_object(&field, &format!("{name}_"), &key_path, is_nullable);
                continue;
            }
            let meaning = property["description"].as_str().unwrap_or_default();
            let column = |name, kind, key_path| Column {
                name,
                kind,
                is_nullable,
                meaning: meaning.to_owned(),
                key_path,
            };
            match kind(&field) {
                Some(kind) => self.columns.push(column(name, kind, key_path)),
                None if field["maxItems"] == 2 && field["items"]["type"] == "number" => {
                    for (index, end) in ["low", "high"].into_iter().enumerate() {
                        let key_path = key_path.iter().cloned().chain([index.to_string()]).collect();
                        self.columns.push(column(format!("{name}_{end}"), ColumnType::Number, key_path));
                    }
                }
                None if self.resolved(&field["items"]).get("properties").is_some() => {}
                None => self.columns.push(column(name, ColumnType::Json, key_path)),
            }
        }
    }

    /// The definition that `property` refers to, or itself.
    fn resolved(&self, property: &Value) -> Value {
        let name = property["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
        name.map_or_else(|| property.clone(), |name| self.schema["$defs"][name].clone())
    }
}

/// The type of a scalar.
fn kind(field: &Value) -> Option<ColumnType> {
    let name = field["type"].as_str().or_else(|| field["type"].as_array()?.first()?.as_str());
    match name {
        Some("boolean") => Some(ColumnType::Boolean),
        Some("integer") if field["minimum"] == 0 => Some(ColumnType::Unsigned),
        Some("integer") => Some(ColumnType::Integer),
        Some("number") => Some(ColumnType::Number),
        Some("string") => Some(ColumnType::Text),
        None if field.get("oneOf").is_some() => Some(ColumnType::Text),
        _ => None,
    }
}
