//! Capture files from an untrusted source: no panic, an end, at most one error, and the same frames whatever the sizes of
//! the reads.

use pathbench_trace::capture::CaptureReader;
use std::io::{self, Read};

/// Uncompressed bytes of one input; a compressed file of a few bytes can have gigabytes.
const MOST_BYTES: u64 = 8 << 20;

struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = out.len().min(3);
        self.0.read(out.get_mut(..length).unwrap_or_default())
    }
}

pub(crate) fn run(bytes: &[u8]) {
    let (whole, slow) = (digest(bytes), digest(Slow(bytes)));
    // The frames just before damage of gzip data depend on the sizes of the reads.
    if !bytes.starts_with(&[0x1f, 0x8b]) || matches!(whole, Ok((.., None))) {
        assert_eq!(whole, slow);
    }
}

/// The frames and the error, as numbers and text.
fn digest(source: impl Read) -> Result<(u64, u64, Option<String>), String> {
    let mut reader = CaptureReader::open(source).map_err(|error| error.to_string())?;
    let (mut frames, mut sum, mut failure) = (0, 0_u64, None);
    while reader.position() < MOST_BYTES {
        match reader.batch() {
            Ok(Some(batch)) => {
                assert!(failure.is_none() && (1..=64).contains(&batch.len()));
                for frame in &batch {
                    assert!(batch.interfaces().get(frame.interface as usize).is_some());
                    assert!(frame.original_length as usize >= frame.bytes.len());
                    let bytes = frame.bytes.iter().chain(frame.comment.unwrap_or_default());
                    sum = bytes.fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
                    sum = sum.wrapping_mul(31).wrapping_add(frame.time_ns);
                    frames += 1;
                }
            }
            Ok(None) => return Ok((frames, sum, failure)),
            Err(error) => {
                assert!(failure.is_none(), "{error} after {failure:?}");
                failure = Some(error.to_string());
            }
        }
    }
    // Where a batch crosses the limit depends on the sizes of the reads.
    Ok((0, 0, None))
}
