//! Sending what waits in the outbox: batches, an answer for each line, and the fate of each file.

use super::collector::{CollectorClient, CollectorError};
use super::outbox::{Outbox, WaitingSubmission};
use pathbench_api::bounds::{BATCH_BYTES, BATCH_LINES};
use pathbench_api::problem::{BatchAnswer, LineAnswer};
use pathbench_program::exit::Failure;

const RESULTS: &str = "/v1/results";
/// Lines in a batch: a batch that fails is sent again as a whole.
const LINES: usize = if BATCH_LINES < 64 { BATCH_LINES } else { 64 };

/// The result of a delivery.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    /// Ids that the collector has acknowledged.
    pub(crate) acknowledged: Vec<String>,
    /// Ids that the collector will not accept, with the reason.
    pub(crate) rejected: Vec<(String, String)>,
    /// Why the rest still waits.
    pub(crate) error: Option<CollectorError>,
    /// The answer to a line that is too large for a proxy; others may pass.
    too_large: Option<CollectorError>,
}

struct Line {
    waiting: WaitingSubmission,
    text: Vec<u8>,
}

/// Sends everything that waits for this collector, the oldest first, until an error. `may_send` is asked before each
/// batch.
pub(crate) fn deliver(
    outbox: &Outbox,
    collector: &CollectorClient,
    may_send: impl Fn() -> bool,
) -> Result<Delivered, Failure> {
    let own = collector.address.to_string();
    let mut queue: Vec<WaitingSubmission> =
        outbox.waiting().into_iter().filter(|one| one.collector == own).collect();
    let mut delivered = Delivered::default();
    while !queue.is_empty() && delivered.error.is_none() && may_send() {
        let batch = next_batch(outbox, &mut queue)?;
        if !batch.is_empty() {
            send(outbox, collector, batch, &mut delivered)?;
        }
    }
    delivered.error = delivered.error.or(delivered.too_large.take());
    Ok(delivered)
}

/// Takes the next lines from the front of `queue`.
fn next_batch(outbox: &Outbox, queue: &mut Vec<WaitingSubmission>) -> Result<Vec<Line>, Failure> {
    let mut batch = Vec::new();
    let mut bytes: u64 = 0;
    let mut taken = 0;
    for waiting in queue.iter() {
        // The header counts as well, which leaves room.
        if batch.len() >= LINES || (!batch.is_empty() && bytes + waiting.bytes > BATCH_BYTES as u64) {
            break;
        }
        taken += 1;
        bytes += waiting.bytes;
        if let Some(text) = outbox.line(waiting)? {
            batch.push(Line { waiting: waiting.clone(), text });
        }
    }
    queue.drain(..taken);
    Ok(batch)
}

fn send(
    outbox: &Outbox,
    collector: &CollectorClient,
    batch: Vec<Line>,
    delivered: &mut Delivered,
) -> Result<(), Failure> {
    let mut body = Vec::with_capacity(batch.iter().map(|line| line.text.len() + 1).sum());
    for line in &batch {
        body.extend_from_slice(&line.text);
        body.push(b'\n');
    }
    match collector.post_lines(RESULTS, &body) {
        Ok(answer) => settle(outbox, collector, &batch, &answer, delivered),
        // The batch as a whole: one line of it may be the reason.
        Err(
            CollectorError::Refused { status: 400 | 413 | 415 | 422, .. }
            | CollectorError::Answer { status: Some(413), .. },
        ) if batch.len() > 1 => {
            let mut lines = batch;
            let second = lines.split_off(lines.len() / 2);
            send(outbox, collector, lines, delivered)?;
            if delivered.error.is_none() { send(outbox, collector, second, delivered) } else { Ok(()) }
        }
        Err(CollectorError::Refused { status: 400 | 413 | 422, problem, .. }) => {
            let Some(line) = batch.first() else { return Ok(()) };
            reject(outbox, line, &problem, delivered)
        }
        Err(error @ CollectorError::Answer { status: Some(413), .. }) => {
            delivered.too_large = Some(error);
            Ok(())
        }
        Err(error) => {
            delivered.error = Some(error);
            Ok(())
        }
    }
}

/// Applies the answers. Only an answer with the id and the number of a sent line counts.
fn settle(
    outbox: &Outbox,
    collector: &CollectorClient,
    batch: &[Line],
    answer: &BatchAnswer,
    delivered: &mut Delivered,
) -> Result<(), Failure> {
    let mut unsettled = None;
    for (line, number) in batch.iter().zip(1_u32..) {
        let is_its = |one: &&LineAnswer| one.line == number && one.id.is_none_or(|id| id == line.waiting.id);
        match answer.results.iter().find(is_its) {
            Some(one) if one.status.is_stored() && one.id.is_some() => {
                outbox.remove(&line.waiting)?;
                delivered.acknowledged.push(line.waiting.id.to_string());
            }
            Some(one) if !one.status.is_retryable() && !one.status.is_stored() => {
                let status: &'static str = one.status.into();
                let reason = one.error.clone().unwrap_or_else(|| status.to_owned());
                reject(outbox, line, &format!("{reason} ({})", one.status.code()), delivered)?;
            }
            Some(one) => {
                let problem = one.error.clone().unwrap_or_else(|| "try again later".to_owned());
                unsettled = Some((one.code, problem));
            }
            None => unsettled = Some((503, "it gives no answer for a line".to_owned())),
        }
    }
    if let Some((status, problem)) = unsettled {
        let url = collector.address.to_string();
        delivered.error = Some(CollectorError::Busy { url, status, problem, retry_after: None });
    }
    Ok(())
}

fn reject(outbox: &Outbox, line: &Line, reason: &str, delivered: &mut Delivered) -> Result<(), Failure> {
    outbox.reject(&line.waiting, reason)?;
    delivered.rejected.push((line.waiting.id.to_string(), reason.to_owned()));
    Ok(())
}
