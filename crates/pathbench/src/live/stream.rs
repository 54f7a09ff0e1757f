//! Live records as NDJSON on standard output: a thread writes them from a bounded queue, so that a slow reader delays
//! no measurement.

use pathbench_program::exit::Failure;
use pathbench_program::output;
use pathbench_record::live::{LiveOmitted, LiveRecord};
use pathbench_transport::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Least length of an interval, as iperf3's.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// Records that wait for a slow reader, some kilobytes each at most.
const QUEUE: usize = 4096;

pub(super) struct RecordStream(Mutex<Queue>);

struct Queue {
    records: Option<SyncSender<LiveRecord>>,
    /// Records that were dropped since the last one that did.
    omitted: u64,
    writer: Option<JoinHandle<Result<(), Failure>>>,
}

impl RecordStream {
    pub(super) fn start(stop: Arc<AtomicBool>) -> Self {
        Self::with_capacity(QUEUE, move |line| {
            output::print(line).inspect_err(|_| stop.store(true, Ordering::Relaxed))
        })
    }

    fn with_capacity(
        records: usize,
        write: impl FnMut(&str) -> Result<(), Failure> + Send + 'static,
    ) -> Self {
        let (sender, queue) = sync_channel(records);
        let writer = Some(thread::spawn(move || write_all(&queue, write)));
        Self(Mutex::new(Queue { records: Some(sender), omitted: 0, writer }))
    }

    pub(super) fn send(&self, record: LiveRecord) {
        let mut queue = lock(&self.0);
        let Queue { records: Some(records), omitted, .. } = &mut *queue else { return };
        if *omitted > 0 && records.try_send(omission(*omitted)).is_ok() {
            *omitted = 0;
        }
        if let Err(TrySendError::Full(_)) = records.try_send(record) {
            *omitted += 1;
        }
    }

    /// Waits until all records are written; returns why standard output could not be written.
    pub(super) fn end(&self, last: LiveRecord) -> Result<(), Failure> {
        let (records, omitted, writer) = {
            let mut queue = lock(&self.0);
            (queue.records.take(), queue.omitted, queue.writer.take())
        };
        if let Some(records) = records {
            let missing = (omitted > 0).then(|| omission(omitted));
            for record in missing.into_iter().chain([last]) {
                // A writer that failed has dropped the queue.
                let _failed = records.send(record);
            }
        }
        let panicked = || Err(Failure::failed("the thread that writes standard output panicked"));
        writer.map_or(Ok(()), |writer| writer.join().unwrap_or_else(|_| panicked()))
    }
}

const fn omission(records: u64) -> LiveRecord {
    LiveRecord::Omitted(LiveOmitted { records })
}

/// Writes each record as a line, until the queue ends or a write fails.
fn write_all(
    queue: &Receiver<LiveRecord>,
    mut write: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for record in queue {
        let mut line = serde_json::to_string(&record).map_err(Failure::failed)?;
        line.push('\n');
        write(&line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbench_record::live::{LiveEnd, LiveNote};
    use std::sync::mpsc::channel;

    fn note(number: usize) -> LiveRecord {
        LiveRecord::Note(LiveNote { text: number.to_string() })
    }

    /// A reader that reads nothing for a long time: `send` returns, and the records that were dropped are counted.
    #[test]
    fn a_slow_reader_loses_records_but_delays_nobody() {
        let (written, lines) = channel();
        let (go, gate) = channel::<()>();
        let stream = RecordStream::with_capacity(4, move |line| {
            // Waits for the first permission only; afterwards the channel is closed.
            let _closed = gate.recv();
            written.send(line.to_owned()).map_err(Failure::failed)
        });
        for number in 0..100 {
            stream.send(note(number));
        }
        drop(go);
        stream.end(LiveRecord::End(LiveEnd { exit_code: 0, error: None, reachability: Vec::new() })).unwrap();
        let records: Vec<LiveRecord> =
            lines.iter().map(|line: String| serde_json::from_str(&line).unwrap()).collect();
        let notes = records.iter().filter(|record| matches!(record, LiveRecord::Note(_))).count() as u64;
        let omitted: u64 = records
            .iter()
            .map(|record| if let LiveRecord::Omitted(omitted) = record { omitted.records } else { 0 })
            .sum();
        assert!(notes < 100 && omitted > 0, "{records:#?}");
        assert_eq!(notes + omitted, 100);
        assert!(matches!(records.last(), Some(LiveRecord::End(_))));
    }

    #[test]
    fn a_failed_write_ends_the_stream_with_its_reason() {
        let stream = RecordStream::with_capacity(4, |_| Err(Failure::failed("no space")));
        for number in 0..10 {
            stream.send(note(number));
        }
        let ended =
            stream.end(LiveRecord::End(LiveEnd { exit_code: 0, error: None, reachability: Vec::new() }));
        assert_eq!(ended.unwrap_err().message, "no space");
    }
}
