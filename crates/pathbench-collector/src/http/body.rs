//! Bodies of requests: bounded in bytes, in memory of all together, and in time.

use super::app::App;
use super::blocking::in_turn;
use crate::memory::MemoryShare;
use crate::refusal::Refusal;
use crate::task::{self, Cancellation};
use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, header};
use flate2::read::MultiGzDecoder;
use pathbench_api::bounds::{BATCH_BYTES, BODY_BYTES};
use serde::de::DeserializeOwned;
use std::future::poll_fn;
use std::io::Read;
use std::pin::Pin;
use std::time::Duration;

/// A body, and the memory it counts against.
#[derive(Debug)]
pub(super) struct ReadBody {
    pub(super) bytes: Vec<u8>,
    pub(super) share: MemoryShare,
}

/// The time for a whole body: a client at 1 Mbit/s sends a batch of 16 MiB in 134 s.
const TIME: Duration = Duration::from_secs(180);

/// The time for each [`PART_BYTES`] of a body, and for its end.
const PART_TIME: Duration = Duration::from_secs(30);
const PART_BYTES: usize = 64 << 10;

const BUSY: Duration = Duration::from_secs(2);

/// The window of a zstd frame: 8 MiB, as RFC 8878 section 3.1.1.1.2 recommends to support.
const ZSTD_WINDOW_LOG: u32 = 23;
/// The window, and the tables of the decoder.
const ZSTD_BYTES: usize = (1 << ZSTD_WINDOW_LOG) + (1 << 20);

/// The body of a batch, decompressed.
pub(super) async fn batch(headers: &HeaderMap, body: Body, app: &App) -> Result<ReadBody, Refusal> {
    let encoding = headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase());
    let read = whole(body, BATCH_BYTES, app).await?;
    let share = app.memory.share(task::client());
    match encoding.as_deref() {
        None | Some(b"identity") => Ok(read),
        Some(b"zstd") => {
            in_turn(&app.bodies, move |cancellation| {
                let mut window = share.another();
                if !window.grow_to(ZSTD_BYTES) {
                    return Err(no_memory());
                }
                decompress(zstd_decoder(&read.bytes)?, "zstd", share, cancellation)
            })
            .await
        }
        Some(b"gzip") => {
            in_turn(&app.bodies, move |cancellation| {
                decompress(MultiGzDecoder::new(read.bytes.as_slice()), "gzip", share, cancellation)
            })
            .await
        }
        Some(other) => {
            let other: String = String::from_utf8_lossy(other).chars().take(20).collect();
            Err(Refusal::unsupported(format!(
                "Content-Encoding `{other}` is not known; send zstd, gzip or none"
            )))
        }
    }
}

fn zstd_decoder(bytes: &[u8]) -> Result<impl Read, Refusal> {
    let failed = |error| Refusal::bad_request(format!("zstd: {error}"));
    let mut decoder = zstd::stream::read::Decoder::new(bytes).map_err(failed)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(failed)?;
    Ok(decoder)
}

/// Any other body: JSON of at most 64 KiB.
pub(super) async fn json<T: DeserializeOwned>(body: Body, app: &App) -> Result<T, Refusal> {
    let read = whole(body, BODY_BYTES, app).await?;
    serde_json::from_slice(&read.bytes).map_err(|error| Refusal::invalid(format!("the body: {error}")))
}

async fn whole(body: Body, most: usize, app: &App) -> Result<ReadBody, Refusal> {
    let collected = tokio::time::timeout(TIME, collect(body, most, app)).await;
    collected.unwrap_or_else(|_| {
        Err(Refusal::too_slow(format!("the body did not arrive within {} s", TIME.as_secs())))
    })
}

async fn collect(mut body: Body, most: usize, app: &App) -> Result<ReadBody, Refusal> {
    if body.size_hint().lower() > most as u64 {
        return Err(too_large(most));
    }
    let mut read = ReadBody { bytes: Vec::new(), share: app.memory.share(task::client()) };
    loop {
        let part = tokio::time::timeout(PART_TIME, part(&mut body, &mut read, most, app)).await;
        let is_last = part.unwrap_or_else(|_| {
            let (kib, seconds) = (PART_BYTES >> 10, PART_TIME.as_secs());
            Err(Refusal::too_slow(format!("less than {kib} KiB of the body arrived within {seconds} s")))
        })?;
        if is_last {
            return Ok(read);
        }
    }
}

/// Whether the body is complete.
async fn part(body: &mut Body, read: &mut ReadBody, most: usize, app: &App) -> Result<bool, Refusal> {
    let enough = read.bytes.len() + PART_BYTES;
    while read.bytes.len() < enough {
        let Some(frame) = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await else {
            return Ok(true);
        };
        let frame = frame.map_err(|error| Refusal::bad_request(format!("the body: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        app.metrics.count_received(data.len());
        if read.bytes.len() + data.len() > most {
            return Err(too_large(most));
        }
        reserve(&mut read.bytes, data.len(), &mut read.share)?;
        read.bytes.extend_from_slice(&data);
    }
    Ok(false)
}

fn too_large(most: usize) -> Refusal {
    Refusal::too_large(format!("the body has more than {most} bytes"))
}

fn no_memory() -> Refusal {
    Refusal::busy("the collector has no memory for the body now", BUSY)
}

/// Capacity of `bytes` for `more`. The share has the memory before it is allocated, and while the bytes are moved also that
/// of the old place.
fn reserve(bytes: &mut Vec<u8>, more: usize, share: &mut MemoryShare) -> Result<(), Refusal> {
    let needed = bytes.len() + more;
    if needed > bytes.capacity() {
        let capacity = needed.max((bytes.capacity() * 2).min(BATCH_BYTES)).max(4096);
        if !share.grow_to(capacity + bytes.capacity()) {
            return Err(no_memory());
        }
        bytes.reserve_exact(capacity - bytes.len());
        share.shrink_to(bytes.capacity());
    }
    Ok(())
}

fn decompress(
    mut decoder: impl Read,
    name: &str,
    mut share: MemoryShare,
    cancellation: &Cancellation,
) -> Result<ReadBody, Refusal> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        cancellation.check()?;
        let count = match decoder.read(&mut buffer) {
            Ok(0) => return Ok(ReadBody { bytes, share }),
            Ok(count) => count,
            Err(error) => return Err(Refusal::bad_request(format!("{name}: {error}"))),
        };
        if bytes.len() + count > BATCH_BYTES {
            return Err(Refusal::too_large(format!(
                "the decompressed body has more than {BATCH_BYTES} bytes"
            )));
        }
        reserve(&mut bytes, count, &mut share)?;
        bytes.extend_from_slice(&buffer[..count]);
    }
}
