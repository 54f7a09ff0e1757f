//! The screen on a real terminal: a thread that receives live records and keys, and draws at most five times a second.

use super::keys;
use super::model::Model;
use super::screen;
use pathbench_program::output;
use pathbench_program::signals::INTERRUPTED;
use pathbench_record::file;
use pathbench_record::live::LiveRecord;
use pathbench_record::time::{SharedClock, Timestamp};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Once};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Least length of an interval on the screen, and least time between two drawings.
pub(super) const INTERVAL: Duration = Duration::from_millis(200);
/// Longest time for which a record waits for a key.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// Presses of a key that ends the command which are closer together count as one.
const SAME_KEYSTROKE: Duration = Duration::from_millis(300);
const QUEUE: usize = 4096;
/// The terminal may have another size: the screen is drawn at least this often.
const REDRAW: Duration = Duration::from_secs(1);

/// Whether the terminal shows the screen.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Restores the terminal if it shows the screen. Also called before an immediate exit.
pub(crate) fn restore() {
    if ACTIVE.swap(false, Ordering::SeqCst) {
        let _no_terminal = disable_raw_mode();
        let _no_terminal = execute!(output::stderr(), LeaveAlternateScreen, Show);
    }
}

pub(super) struct Screen {
    records: Option<SyncSender<LiveRecord>>,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    /// Opens the screen; the first `q` or Ctrl-C sets `stop`.
    pub(super) fn open(stop: Arc<AtomicBool>, clock: SharedClock) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                previous(panic);
            }));
        });
        // Standard input of a lab's orchestrator is a socket.
        let keys = file::open_stream("/dev/tty")?;
        enable_raw_mode()?;
        ACTIVE.store(true, Ordering::SeqCst);
        let terminal = execute!(output::stderr(), EnterAlternateScreen, Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(output::stderr())))
            .inspect_err(|_| restore())?;
        let (records, queue) = sync_channel(QUEUE);
        let thread = thread::spawn(move || {
            let model = Model::default();
            View { clock, terminal, model, keys: Some(keys), stop, first_press: None }.run(&queue);
            restore();
        });
        Ok(Self { records: Some(records), thread: Some(thread) })
    }

    /// A record that the full queue drops is not displayed.
    pub(super) fn send(&self, record: LiveRecord) {
        if let Some(records) = &self.records {
            let _full = records.try_send(record);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.records = None;
        if let Some(thread) = self.thread.take() {
            // The panic hook has printed a panic of the thread.
            let _ended = thread.join();
        }
        restore();
    }
}

struct View {
    clock: SharedClock,
    terminal: Terminal<CrosstermBackend<io::Stderr>>,
    model: Model,
    /// `None` after the terminal has hung up.
    keys: Option<File>,
    stop: Arc<AtomicBool>,
    first_press: Option<Timestamp>,
}

impl View {
    /// Until the records end, or the terminal fails.
    fn run(mut self, queue: &Receiver<LiveRecord>) {
        let clock = Arc::clone(&self.clock);
        let colour = output::wants_colour();
        let mut is_changed = true;
        let mut next = clock.now();
        loop {
            loop {
                match queue.try_recv() {
                    Ok(record) => self.model.add(record),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
                is_changed = true;
            }
            let now = clock.now();
            self.model.is_stopping |= self.stop.load(Ordering::Relaxed);
            if is_changed && now >= next && ACTIVE.load(Ordering::SeqCst) {
                let model = &self.model;
                if self.terminal.draw(|frame| screen::draw(model, colour, frame)).is_err() {
                    return;
                }
                (is_changed, next) = (false, clock.now() + INTERVAL);
            }
            for command in self.commands() {
                self.apply(command, clock.now());
                is_changed = true;
            }
            is_changed |= now.duration_since(next) >= REDRAW;
        }
    }

    /// The keys that are pressed within a short time.
    fn commands(&mut self) -> Vec<keys::Command> {
        let clock = &self.clock;
        let until = clock.now() + KEY_WAIT;
        let Some(terminal) = &mut self.keys else {
            clock.sleep_until(until);
            return Vec::new();
        };
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(KEY_WAIT.subsec_nanos()) };
        let mut polled = [PollFd::new(terminal, PollFlags::IN)];
        if !poll(&mut polled, Some(&wait)).is_ok_and(|ready| ready > 0) {
            return Vec::new();
        }
        let mut bytes = [0; 64];
        match terminal.read(&mut bytes) {
            Ok(length @ 1..) => keys::commands(&bytes[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Vec::new(),
            Ok(0) | Err(_) => {
                self.keys = None;
                Vec::new()
            }
        }
    }

    fn apply(&mut self, command: keys::Command, now: Timestamp) {
        self.model.apply(command);
        if command == keys::Command::Quit {
            self.stop.store(true, Ordering::Relaxed);
            if now.duration_since(*self.first_press.get_or_insert(now)) > SAME_KEYSTROKE {
                restore();
                std::process::exit(INTERRUPTED);
            }
        }
    }
}
