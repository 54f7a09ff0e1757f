//! The JSON Schema (draft 2020-12) of `run.json` and of a line of each JSON Lines file, made from the types.

use crate::datagram::DatagramLine;
use crate::delivery::DeliveryLine;
use crate::directory::Line;
use crate::document::{LinkSample, ProbeLine, ResultDocument};
use crate::end::MessageLine;
use crate::event::Event;
use crate::live::LiveRecord;
use crate::sample::Sample;
use crate::trace::{SequenceLine, TraceDocument};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// The schema of one file of a result.
#[derive(Debug, Clone, Copy)]
pub struct FileSchema {
    /// The file's name without its extension: `run`, `samples`.
    pub name: &'static str,
    pub file: &'static str,
    generate: fn() -> Value,
}

/// `run.json`, then the JSON Lines files.
pub const FILES: [FileSchema; 8] = [
    FileSchema { name: "run", file: "run.json", generate: generate::<ResultDocument> },
    FileSchema { name: "samples", file: Sample::FILE, generate: generate::<Sample> },
    FileSchema { name: "events", file: Event::FILE, generate: generate::<Event> },
    FileSchema { name: "delivery", file: DeliveryLine::FILE, generate: generate::<DeliveryLine> },
    FileSchema { name: "messages", file: MessageLine::FILE, generate: generate::<MessageLine> },
    FileSchema { name: "links", file: LinkSample::FILE, generate: generate::<LinkSample> },
    FileSchema { name: "probes", file: ProbeLine::FILE, generate: generate::<ProbeLine> },
    FileSchema { name: "datagrams", file: DatagramLine::FILE, generate: generate::<DatagramLine> },
];

/// The document of `pathbench trace`.
pub const TRACE: FileSchema =
    FileSchema { name: "trace", file: crate::directory::TRACE_FILE, generate: generate::<TraceDocument> };

/// A line of the time-sequence graphs of `pathbench trace`.
pub const SEQUENCE: FileSchema = FileSchema {
    name: "sequence",
    file: crate::directory::SEQUENCE_FILE,
    generate: generate::<SequenceLine>,
};

/// A line of `--json-stream`.
pub const STREAM: FileSchema =
    FileSchema { name: "live", file: "standard output", generate: generate::<LiveRecord> };

impl FileSchema {
    pub fn named(name: &str) -> Option<Self> {
        FILES.into_iter().chain([TRACE, SEQUENCE]).find(|schema| schema.name == name)
    }

    pub fn schema(&self) -> Value {
        (self.generate)()
    }
}

/// The schema of files that Pathbench reads: a field that it fills in where it is absent is not required.
fn generate<T: JsonSchema>() -> Value {
    // One generator each: a used one would add the definitions of earlier types.
    let mut schema =
        SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<T>();
    let object = schema.ensure_object();
    for value in object.values_mut() {
        plain_descriptions(value);
    }
    let root = object.get("title").and_then(Value::as_str).unwrap_or_default().to_owned();
    forbid_null(&root, object);
    if let Some(Value::Object(definitions)) = object.get_mut("$defs") {
        for (name, definition) in definitions {
            if let Value::Object(definition) = definition {
                forbid_null(name, definition);
            }
        }
    }
    schema.to_value()
}

/// Fields without a value are absent, never `null`, except `error` of a run.
fn forbid_null(name: &str, schema: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (key, property) in properties {
        if (name, key.as_str()) == ("RunRecord", "error") {
            continue;
        }
        let Value::Object(property) = property else { continue };
        if let Some(Value::Array(types)) = property.get_mut("type") {
            types.retain(|kind| kind != "null");
            if let [one] = types.as_slice() {
                let one = one.clone();
                property.insert("type".to_owned(), one);
            }
        }
        if let Some(Value::Array(choices)) = property.get_mut("anyOf") {
            choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
            if let [Value::Object(one)] = choices.as_slice() {
                let one = one.clone();
                property.remove("anyOf");
                property.extend(one);
            }
        }
    }
}

/// Descriptions are doc comments: without their line breaks and links between items.
fn plain_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object {
                match value {
                    Value::String(text) if key == "description" => {
                        *text = text.replace('\n', " ").replace("[`", "`").replace("`]", "`");
                    }
                    other => plain_descriptions(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(plain_descriptions),
        _ => {}
    }
}
