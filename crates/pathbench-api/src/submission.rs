//! A result as it is submitted: one line of a batch.

use crate::Uuid;
use crate::bounds::{EARLIEST_MS, LINE_BYTES, RAW_BYTES, SUMMARY_BYTES};
use crate::consent::Consent;
use crate::digest::Digest;
use crate::summary::Summary;
use data_encoding::BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub const SCHEMA: &str = "pathbench.submission/1";

/// One line of the body of `POST /v1/results`.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// `pathbench.submission/1`
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// `UUIDv7` (RFC 9562), made by the client: a repeated submission has the same id.
    pub id: Uuid,
    /// The random id of the agent.
    pub agent: Uuid,
    /// `private` or `public`.
    pub consent: Consent,
    /// SHA-256 of the deletion token, which stays with the client.
    pub deletion_sha256: Digest,
    pub summary: Summary,
    /// The result directory as a `.tar.zst` file, in base64 (RFC 4648, section 4); absent if it is too large.
    pub raw: Option<String>,
}

/// Why a line is no submission.
#[derive(Debug, Error)]
pub enum SubmissionError {
    #[error("the line has {bytes} bytes; at most {LINE_BYTES} are accepted")]
    Large { bytes: usize },
    #[error("not a submission: {0}")]
    Json(#[from] serde_json::Error),
    #[error("`schema` is `{found}`, not `{SCHEMA}`")]
    Schema { found: String },
    #[error("`id` is no UUIDv7 with a time between 2020 and tomorrow")]
    Id,
    #[error("`consent` is `none`: such a result stays with its owner")]
    NoConsent,
    #[error("`summary`: {0}")]
    Summary(String),
    #[error("the line has {bytes} bytes beside `raw`; at most {SUMMARY_LINE_BYTES} are accepted")]
    LargeSummary { bytes: usize },
    #[error("`raw` is not base64")]
    RawEncoding,
    #[error("`raw` has more than {RAW_BYTES} bytes")]
    RawSize,
    #[error("`raw` is not a zstd file")]
    RawFormat,
}

/// A line that passed every check.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    pub submission: Submission,
    /// Of the line: a repetition must have the same.
    pub digest: Digest,
    /// The decoded raw part; `submission.raw` is empty.
    pub raw: Vec<u8>,
}

const DAY_MS: u64 = 86_400_000;

/// A line without its raw part: the summary and the other fields.
const SUMMARY_LINE_BYTES: usize = SUMMARY_BYTES + 1024;

/// Magic number of a zstd frame (RFC 8878, section 3.1.1), little-endian.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

impl Submission {
    /// Parses and checks one line of a batch, without its line feed; `now_ms` is Unix time.
    pub fn check(line: &[u8], now_ms: u64) -> Result<Checked, SubmissionError> {
        if line.len() > LINE_BYTES {
            return Err(SubmissionError::Large { bytes: line.len() });
        }
        let bytes = bytes_beside_raw(line)?;
        if bytes > SUMMARY_LINE_BYTES {
            return Err(SubmissionError::LargeSummary { bytes });
        }
        let mut submission: Self = serde_json::from_slice(line)?;
        if submission.schema != SCHEMA {
            return Err(SubmissionError::Schema { found: submission.schema.chars().take(40).collect() });
        }
        let made_ms = id_time_ms(submission.id).ok_or(SubmissionError::Id)?;
        if !(EARLIEST_MS..=now_ms.saturating_add(DAY_MS)).contains(&made_ms) {
            return Err(SubmissionError::Id);
        }
        if submission.consent == Consent::None {
            return Err(SubmissionError::NoConsent);
        }
        submission.summary.check(now_ms.saturating_add(DAY_MS)).map_err(SubmissionError::Summary)?;
        let raw = match submission.raw.take() {
            None => Vec::new(),
            Some(text) => decode_raw(&text)?,
        };
        Ok(Checked { submission, digest: Digest::compute(line), raw })
    }
}

/// Counted before the summary is parsed: its lists and maps take about 12 times its bytes.
fn bytes_beside_raw(line: &[u8]) -> serde_json::Result<usize> {
    #[derive(Deserialize)]
    struct WithRaw {
        raw: Option<String>,
    }
    if line.len() <= SUMMARY_LINE_BYTES {
        return Ok(line.len());
    }
    let WithRaw { raw } = serde_json::from_slice(line)?;
    Ok(line.len() - raw.map_or(0, |raw| raw.len()).min(line.len()))
}

fn decode_raw(text: &str) -> Result<Vec<u8>, SubmissionError> {
    if text.len() > RAW_BYTES.div_ceil(3) * 4 {
        return Err(SubmissionError::RawSize);
    }
    let raw = BASE64.decode(text.as_bytes()).map_err(|_| SubmissionError::RawEncoding)?;
    // Three bytes have four characters: a text within the bound can hold one byte more.
    if raw.len() > RAW_BYTES {
        return Err(SubmissionError::RawSize);
    }
    if raw.starts_with(&ZSTD_MAGIC) { Ok(raw) } else { Err(SubmissionError::RawFormat) }
}

/// A `UUIDv7` (RFC 9562, section 5.7) of a Unix time and 10 random bytes.
pub fn new_id(now_ms: u64, random: &[u8; 10]) -> Uuid {
    uuid::Builder::from_unix_timestamp_millis(now_ms, random).into_uuid()
}

/// The Unix time in a `UUIDv7`, in milliseconds; `None` for another version or variant.
pub fn id_time_ms(id: Uuid) -> Option<u64> {
    let is_version_7 = id.get_version_num() == 7 && id.get_variant() == uuid::Variant::RFC4122;
    is_version_7.then(|| u64::try_from(id.as_u128() >> 80).unwrap_or(u64::MAX))
}
