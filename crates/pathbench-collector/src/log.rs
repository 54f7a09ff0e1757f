//! The log: one JSON object per line on standard error.

use pathbench_record::time::{SharedClock, rfc3339_from_unix};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

type Sink = Box<dyn Write + Send>;

#[derive(Clone)]
pub struct Log {
    clock: SharedClock,
    sink: Arc<Mutex<Sink>>,
}

impl Log {
    pub fn new(clock: SharedClock, sink: impl Write + Send + 'static) -> Self {
        Self { clock, sink: Arc::new(Mutex::new(Box::new(sink))) }
    }

    pub fn info(&self, event: &str, fields: Value) {
        self.write("info", event, fields);
    }

    pub fn error(&self, event: &str, fields: Value) {
        self.write("error", event, fields);
    }

    fn write(&self, level: &str, event: &str, fields: Value) {
        let now_ms = self.clock.unix_ms();
        let mut line = Map::new();
        line.insert("time".to_owned(), rfc3339_from_unix((now_ms / 1000) as i64).into());
        line.insert("level".to_owned(), level.into());
        line.insert("event".to_owned(), event.into());
        if let Value::Object(fields) = fields {
            line.extend(fields);
        }
        let mut text = json!(line).to_string();
        text.push('\n');
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        // A failed write to the log has no other output.
        let _ = sink.write_all(text.as_bytes());
    }
}
