//! The agent's log: one JSON object per line on stderr.

use crate::clock::unix_seconds;
use crate::output;
use pathbench_record::time::rfc3339_from_unix;
use serde_json::{Value, json};

/// Logs an event with the members of the object `fields`.
pub(crate) fn event(name: &str, fields: Value) {
    let time = rfc3339_from_unix(i64::try_from(unix_seconds()).unwrap_or_default());
    let mut line = json!({ "time": time, "event": name });
    if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
        line.extend(fields);
    }
    output::note(line);
}
