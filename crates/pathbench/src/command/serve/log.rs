//! The server's log on stderr: one line per event, with clients' addresses only on request.

use super::arguments::ServeArgs;
use pathbench_program::output;
use pathbench_record::text::duration;
use pathbench_record::time::{SharedClock, Timestamp};
use pathbench_traffic::server::{ServerEvent, ServerObserver};
use pathbench_transport::{lock, panic_message};
use serde_json::{Map, Value, json};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::net::SocketAddr;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum number of refusals logged per [`SPAN`]; clients must not be able to fill a disk.
const MOST_REFUSALS: u32 = 20;
const SPAN: Duration = Duration::from_secs(10);

pub(super) struct ServerLog {
    json: bool,
    quiet: bool,
    clients: bool,
    refusals: Mutex<Refusals>,
    /// Standard error; replaced in tests.
    sink: Box<dyn Fn(String) + Send + Sync>,
    clock: SharedClock,
}

struct Line {
    /// Includes `event`.
    fields: Map<String, Value>,
    words: String,
}

impl ServerLog {
    pub(super) fn new(args: &ServeArgs, clock: &SharedClock) -> Self {
        Self {
            json: args.json,
            quiet: args.quiet,
            clients: args.log_clients,
            refusals: Mutex::new(Refusals::default()),
            sink: Box::new(output::note),
            clock: Arc::clone(clock),
        }
    }

    pub(super) fn notice(&self, words: &str) {
        let fields = fields(json!({ "event": "notice", "message": words }));
        self.write(Line { fields, words: words.to_owned() });
    }

    /// Logs a panic of any thread, even with --quiet.
    pub(super) fn panic(&self, panic: &PanicHookInfo<'_>) {
        let thread = std::thread::current();
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        self.show(Self::panic_line(
            thread.name().unwrap_or_default(),
            &location,
            &panic_message(panic.payload()),
            &Backtrace::capture(),
        ));
    }

    fn panic_line(thread: &str, location: &str, message: &str, backtrace: &Backtrace) -> Line {
        let mut words = format!("thread `{thread}` panicked at {location}: {message}");
        let mut fields =
            fields(json!({ "event": "panic", "thread": thread, "location": location, "message": message }));
        if backtrace.status() == BacktraceStatus::Captured {
            let frames = backtrace.to_string();
            words = format!("{words}\n{frames}");
            fields.insert("backtrace".to_owned(), frames.into());
        }
        Line { fields, words }
    }

    fn write(&self, line: Line) {
        if !self.quiet {
            self.show(line);
        }
    }

    fn show(&self, line: Line) {
        let time = self.clock.rfc3339();
        let text = if self.json {
            let mut document = fields(json!({ "time": time }));
            document.extend(line.fields);
            Value::Object(document).to_string()
        } else {
            format!("{time} {}", line.words)
        };
        (self.sink)(text);
    }

    fn line(&self, event: &ServerEvent<'_>) -> Line {
        let mut fields = fields(serde_json::to_value(event).unwrap_or_default());
        if !self.clients {
            fields.remove("client");
        }
        let from = |client: &SocketAddr| {
            if self.clients { format!(" from {client}") } else { String::new() }
        };
        let words = match event {
            ServerEvent::Started { number, pattern, transport, client } => {
                format!("test {number} begins: {pattern} over {transport}{}", from(client))
            }
            ServerEvent::Ended { number, completed, sent_bytes, received_bytes, lasted_ms } => format!(
                "test {number} {} after {}: {sent_bytes} bytes sent, {received_bytes} received",
                if *completed { "is complete" } else { "broke off" },
                duration(Duration::from_millis(*lasted_ms))
            ),
            ServerEvent::Refused { message, client, .. } => {
                format!("refused a client{}: {message}", from(client))
            }
            ServerEvent::TooManyConnections { client } => {
                format!("closed a connection{}: there are too many", from(client))
            }
            ServerEvent::Panicked { context: location, message } => {
                format!("aborted a connection after a panic ({location}: {message}); please report it")
            }
            ServerEvent::ListenerFailed { transport, address, message } => {
                format!("{address} accepts no {transport} any more: {message}; please report it")
            }
        };
        Line { fields, words }
    }
}

impl ServerObserver for ServerLog {
    fn on_event(&self, event: &ServerEvent<'_>) {
        if matches!(event, ServerEvent::Refused { .. } | ServerEvent::TooManyConnections { .. }) {
            let mut refusals = lock(&self.refusals);
            let (shown, missed) = refusals.count(self.clock.now());
            drop(refusals);
            if missed > 0 {
                self.notice(&format!("{missed} more were refused before"));
            }
            if !shown {
                return;
            }
        }
        self.write(self.line(event));
    }
}

#[derive(Debug, Default)]
struct Refusals {
    since: Option<Timestamp>,
    count: u32,
}

impl Refusals {
    /// Whether to log this refusal, and how many refusals before it were not logged.
    fn count(&mut self, now: Timestamp) -> (bool, u32) {
        let mut missed = 0;
        if self.since.is_none_or(|since| now.duration_since(since) > SPAN) {
            missed = self.count.saturating_sub(MOST_REFUSALS);
            (self.since, self.count) = (Some(now), 0);
        }
        self.count = self.count.saturating_add(1);
        (self.count <= MOST_REFUSALS, missed)
    }
}

fn fields(document: Value) -> Map<String, Value> {
    match document {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct PanicCount(Arc<AtomicU64>);

impl PanicCount {
    /// From now on counts and logs every panic of this process instead of printing the standard message.
    pub(super) fn start(log: &Arc<ServerLog>) -> Self {
        let count = Self::default();
        std::panic::set_hook(Box::new(count.hook(log)));
        count
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn hook(&self, log: &Arc<ServerLog>) -> impl Fn(&PanicHookInfo<'_>) + Send + Sync + use<> {
        let (count, log) = (self.clone(), Arc::clone(log));
        move |panic| {
            count.0.fetch_add(1, Ordering::Relaxed);
            log.panic(panic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_testkit::FixedClock;

    #[test]
    fn a_flood_of_refusals_is_a_few_lines_and_a_number() {
        let at = |seconds: u64| Timestamp::from_nanos(seconds * 1_000_000_000);
        let mut refusals = Refusals::default();
        let shown = (0..1000).filter(|_| refusals.count(at(100)).0).count();
        assert_eq!(shown, 20);
        assert_eq!(refusals.count(at(105)), (false, 0));
        assert_eq!(refusals.count(at(111)), (true, 981));
        assert_eq!(refusals.count(at(112)), (true, 0));
    }

    impl ServerLog {
        /// A log whose lines go to `sink`.
        pub(in crate::command::serve) fn with_sink(sink: impl Fn(String) + Send + Sync + 'static) -> Self {
            Self {
                json: false,
                quiet: false,
                clients: false,
                refusals: Mutex::default(),
                sink: Box::new(sink),
                clock: Arc::new(FixedClock::from_unix(0)),
            }
        }
    }

    #[test]
    fn a_panic_is_one_line_with_its_place() {
        let line = ServerLog::panic_line("quic", "src/x.rs:1:2", "no memory", &Backtrace::disabled());
        assert_eq!(line.words, "thread `quic` panicked at src/x.rs:1:2: no memory");
        assert_eq!(line.fields["location"], "src/x.rs:1:2");
        assert!(!line.fields.contains_key("backtrace"));
    }

    #[test]
    fn clients_are_named_only_when_asked_for() {
        let log = |clients| ServerLog { clients, ..ServerLog::with_sink(drop) };
        let client = SocketAddr::from(([192, 0, 2, 7], 1234));
        let event = ServerEvent::TooManyConnections { client };
        assert!(!log(false).line(&event).words.contains("192.0.2.7"));
        assert!(!log(false).line(&event).fields.contains_key("client"));
        assert!(log(true).line(&event).words.contains("192.0.2.7:1234"));
        assert_eq!(log(true).line(&event).fields["client"], "192.0.2.7:1234");
    }

    #[test]
    fn panics_of_any_thread_are_counted_and_logged_where_they_happen() {
        const VICTIM: &str = "victim";
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = ServerLog::with_sink({
            let lines = Arc::clone(&lines);
            move |line| lines.lock().unwrap().push(line)
        });
        let (standard, count) = (std::panic::take_hook(), PanicCount::default());
        let hook = count.hook(&Arc::new(log));
        // Other tests run in parallel; their panics are reported by the standard hook.
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().name() == Some(VICTIM) { hook(panic) } else { standard(panic) }
        }));
        let victim = std::thread::Builder::new().name(VICTIM.to_owned());
        let panicked = victim.spawn(|| panic!("on purpose")).unwrap().join();
        assert!(panicked.is_err());
        assert_eq!(count.get(), 1);
        let lines = lines.lock().unwrap();
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.contains(concat!("thread `victim` panicked at ", file!())), "{line}");
    }
}
