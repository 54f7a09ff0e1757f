//! Panics of any thread: logged where they happen, and counted for the health endpoint.

use super::log::Log;
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many panics there were.
#[derive(Debug, Clone, Default)]
pub(super) struct PanicCount(Arc<AtomicU64>);

impl PanicCount {
    /// Counts and logs every panic of this process from now on, in the place of the standard message.
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
