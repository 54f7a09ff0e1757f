//! The server's log on stderr: a line per event, with clients' addresses only on request.

use super::arguments::ServeArgs;
use crate::clock::{MonotonicClock, unix_seconds};
use crate::output;
use pathbench_record::calendar::rfc3339_from_unix;
use pathbench_record::time::{Clock as _, Timestamp};
use pathbench_traffic::server::{ServerEvent, ServerObserver};
use pathbench_transport::panic_message;
use serde_json::{Map, Value, json};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::net::SocketAddr;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Refusals that are logged within a span; clients must not fill a disk.
const MOST_REFUSALS: u32 = 20;
const SPAN: Duration = Duration::from_secs(10);

pub(super) struct Log {
    json: bool,
    quiet: bool,
    clients: bool,
    refusals: Mutex<Refusals>,
    /// Standard error, except in tests.
    sink: Box<dyn Fn(String) + Send + Sync>,
}

struct Line {
    event: &'static str,
    fields: Map<String, Value>,
    words: String,
}

impl Log {
    pub(super) fn new(args: &ServeArgs) -> Self {
        Self {
            json: args.json,
            quiet: args.quiet,
            clients: args.log_clients,
            refusals: Mutex::new(Refusals::default()),
            sink: Box::new(output::note),
        }
    }

    pub(super) fn notice(&self, words: &str) {
        self.write(Line {
            event: "notice",
            fields: fields(json!({ "message": words })),
            words: words.to_owned(),
        });
    }

    /// A panic of any thread, logged even with --quiet.
    pub(super) fn panic(&self, panic: &PanicHookInfo<'_>) {
        let thread = std::thread::current();
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        self.show(Self::panic_line(
            thread.name().unwrap_or_default(),
            &place,
            &panic_message(panic.payload()),
            &Backtrace::capture(),
        ));
    }

    fn panic_line(thread: &str, place: &str, message: &str, backtrace: &Backtrace) -> Line {
        let mut words = format!("thread `{thread}` panicked at {place}: {message}");
        let mut document = fields(json!({ "thread": thread, "location": place, "message": message }));
        if backtrace.status() == BacktraceStatus::Captured {
            let frames = backtrace.to_string();
            words = format!("{words}\n{frames}");
            document.insert("backtrace".to_owned(), frames.into());
        }
        Line { event: "panic", fields: document, words }
    }

    fn write(&self, line: Line) {
        if !self.quiet {
            self.show(line);
        }
    }

    fn show(&self, line: Line) {
        let time = rfc3339_from_unix(i64::try_from(unix_seconds()).unwrap_or(i64::MAX));
        let text = if self.json {
            let mut document = fields(json!({ "time": time, "event": line.event }));
            document.extend(line.fields);
            Value::Object(document).to_string()
        } else {
            format!("{time} {}", line.words)
        };
        (self.sink)(text);
    }

    fn line(&self, event: &ServerEvent<'_>) -> Line {
        let from = |client: &SocketAddr| {
            if self.clients { format!(" from {client}") } else { String::new() }
        };
        let with_client = |document: Value, client: &SocketAddr| {
            let mut document = fields(document);
            if self.clients {
                document.insert("client".to_owned(), client.to_string().into());
            }
            document
        };
        match event {
            ServerEvent::Started { number, pattern, transport, client } => Line {
                event: "started",
                fields: with_client(
                    json!({ "test": number, "pattern": pattern, "transport": transport.name() }),
                    client,
                ),
                words: format!("test {number} begins: {pattern} over {transport}{}", from(client)),
            },
            ServerEvent::Ended { number, completed, sent_bytes, received_bytes, lasted } => Line {
                event: "ended",
                fields: fields(json!({
                    "test": number,
                    "completed": completed,
                    "sent_bytes": sent_bytes,
                    "received_bytes": received_bytes,
                    "lasted_ms": u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX),
                })),
                words: format!(
                    "test {number} {} after {:.1} s: {sent_bytes} bytes sent, {received_bytes} received",
                    if *completed { "is complete" } else { "broke off" },
                    lasted.as_secs_f64()
                ),
            },
            ServerEvent::Refused { code, message, client } => Line {
                event: "refused",
                fields: with_client(json!({ "code": code, "message": message }), client),
                words: format!("refused a client{}: {message}", from(client)),
            },
            ServerEvent::TooManyConnections { client } => Line {
                event: "too-many-connections",
                fields: with_client(json!({}), client),
                words: format!("closed a connection{}: there are too many", from(client)),
            },
            ServerEvent::Panicked { place, message } => Line {
                event: "panicked",
                fields: fields(json!({ "place": place, "message": message })),
                words: format!("aborted a connection after a panic ({place}: {message}); please report it"),
            },
            ServerEvent::ListenerFailed { transport, address, message } => Line {
                event: "listener-failed",
                fields: fields(json!({
                    "transport": transport.name(),
                    "address": address.to_string(),
                    "message": message,
                })),
                words: format!("{address} accepts no {transport} any more: {message}; please report it"),
            },
        }
    }
}

impl ServerObserver for Log {
    fn on_event(&self, event: &ServerEvent<'_>) {
        if matches!(event, ServerEvent::Refused { .. } | ServerEvent::TooManyConnections { .. }) {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            let (shown, missed) = refusals.count(MonotonicClock.now());
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
    /// Whether this one is to be logged, and how many were not before it.
    fn count(&mut self, now: Timestamp) -> (bool, u32) {
        let mut missed = 0;
        if self.since.is_none_or(|since| now.since(since) > SPAN) {
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
    /// Counts and logs every panic of this process from now on, instead of the standard message.
    pub(super) fn start(log: &Arc<Log>) -> Self {
        let count = Self::default();
        std::panic::set_hook(Box::new(count.hook(log)));
        count
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn hook(&self, log: &Arc<Log>) -> impl Fn(&PanicHookInfo<'_>) + Send + Sync + use<> {
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
    use std::sync::Mutex;

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

    impl Log {
        /// A log whose lines go to `sink`.
        pub(in crate::serve) fn to(sink: impl Fn(String) + Send + Sync + 'static) -> Self {
            let refusals = Mutex::default();
            Self { json: false, quiet: false, clients: false, refusals, sink: Box::new(sink) }
        }
    }

    #[test]
    fn a_panic_is_one_line_with_its_place() {
        let line = Log::panic_line("quic", "src/x.rs:1:2", "no room", &Backtrace::disabled());
        assert_eq!(line.words, "thread `quic` panicked at src/x.rs:1:2: no room");
        assert_eq!(line.fields["location"], "src/x.rs:1:2");
        assert!(!line.fields.contains_key("backtrace"));
    }

    #[test]
    fn clients_are_named_only_when_asked_for() {
        let log = |clients| Log { clients, ..Log::to(drop) };
        let client = SocketAddr::from(([192, 0, 2, 7], 1234));
        let event = ServerEvent::TooManyConnections { client };
        assert!(!log(false).line(&event).words.contains("192.0.2.7"));
        assert!(log(false).line(&event).fields.is_empty());
        assert!(log(true).line(&event).words.contains("192.0.2.7:1234"));
        assert_eq!(log(true).line(&event).fields["client"], "192.0.2.7:1234");
    }

    #[test]
    fn panics_of_any_thread_are_counted_and_logged_where_they_happen() {
        const VICTIM: &str = "victim";
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = Log::to({
            let lines = Arc::clone(&lines);
            move |line| lines.lock().unwrap().push(line)
        });
        let (standard, count) = (std::panic::take_hook(), PanicCount::default());
        let hook = count.hook(&Arc::new(log));
        // Panics of other tests, which run at the same time, are reported as ever.
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
