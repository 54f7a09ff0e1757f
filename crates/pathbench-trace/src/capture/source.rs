//! The bytes of a file without their compression: gzip (RFC 1952), zstd (RFC 8878).

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// The decoder withholds the bytes of the call in which it finds damage.
const GZIP_READ_BYTES: usize = 16 << 10;
const COMPRESSED_BUFFER_BYTES: usize = 128 << 10;
/// The limit of the `zstd` program: windows up to 2²⁷ bytes.
const LARGEST_ZSTD_WINDOW_BYTES: u64 = 128 << 20;
/// A last block without bytes (RFC 8878, section 3.1.1.2), and zeros for a checksum.
const ZSTD_LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// The compression of a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    fn from_magic(magic: &[u8]) -> Option<Self> {
        match *magic {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            // The second is a skippable frame.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Self::Zstd),
            _ => None,
        }
    }

    fn damaged(self) -> io::Error {
        io::Error::new(ErrorKind::InvalidData, format!("the {} data is damaged", self.name()))
    }

    fn ends_early(self) -> io::Error {
        io::Error::new(ErrorKind::UnexpectedEof, format!("the {} data ends early", self.name()))
    }
}

pub(super) enum Source<R> {
    Plain(Input<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Input<R>>>>),
    Zstd(Box<Zstd<R>>),
}

impl<R: Read> Source<R> {
    pub(super) fn open(file: R) -> io::Result<Self> {
        let input = Input::open(file)?;
        let compression = Compression::from_magic(input.rest_of_magic());
        let buffered = |input| BufReader::with_capacity(COMPRESSED_BUFFER_BYTES, input);
        Ok(match compression {
            None => Self::Plain(input),
            Some(Compression::Gzip) => Self::Gzip(Box::new(MultiGzDecoder::new(buffered(input)))),
            Some(Compression::Zstd) => Self::Zstd(Box::new(Zstd::new(buffered(input)))),
        })
    }

    pub(super) fn compression(&self) -> Option<Compression> {
        match self {
            Self::Plain(_) => None,
            Self::Gzip(_) => Some(Compression::Gzip),
            Self::Zstd(_) => Some(Compression::Zstd),
        }
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(out),
            Self::Gzip(decoder) => {
                let length = out.len().min(GZIP_READ_BYTES);
                let read = decoder.read(out.get_mut(..length).unwrap_or_default());
                read.map_err(|_| decoder.get_mut().get_mut().reason(Compression::Gzip))
            }
            Self::Zstd(decoder) => decoder.read(out),
        }
    }
}

impl<R> fmt::Debug for Source<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Gzip(_) => "Gzip",
            Self::Zstd(_) => "Zstd",
        })
    }
}

/// The file, of which the first bytes were read already.
pub(super) struct Input<R> {
    file: R,
    magic: [u8; 4],
    magic_at: usize,
    magic_end: usize,
    /// Decoders report neither the end of the file nor its errors as such.
    ended: bool,
    error: Option<io::Error>,
}

impl<R: Read> Input<R> {
    fn open(file: R) -> io::Result<Self> {
        let mut input = Self { file, magic: [0; 4], magic_at: 0, magic_end: 0, ended: false, error: None };
        while let Some(rest) = input.magic.get_mut(input.magic_end..).filter(|rest| !rest.is_empty()) {
            match input.file.read(rest) {
                Ok(0) => break,
                Ok(read) => input.magic_end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(input)
    }

    fn rest_of_magic(&self) -> &[u8] {
        self.magic.get(self.magic_at..self.magic_end).unwrap_or_default()
    }

    /// Why a decoder failed.
    fn reason(&mut self, compression: Compression) -> io::Error {
        match self.error.take() {
            Some(error) => error,
            None if self.ended => compression.ends_early(),
            None => compression.damaged(),
        }
    }
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut magic = self.rest_of_magic();
        if !magic.is_empty() {
            let read = magic.read(out)?;
            self.magic_at += read;
            return Ok(read);
        }
        loop {
            match self.file.read(out) {
                Ok(read) => {
                    self.ended = read == 0;
                    return Ok(read);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.error = Some(io::Error::new(error.kind(), error.to_string()));
                    return Err(error);
                }
            }
        }
    }
}

/// Frames of zstd, one after the other.
///
/// The library's own `Read` takes one frame only, and of a damaged frame it withholds the last bytes, up to the size of
/// the window.
pub(super) struct Zstd<R> {
    input: BufReader<Input<R>>,
    decoder: FrameDecoder,
    in_frame: bool,
    error: Option<io::Error>,
}

impl<R: Read> Zstd<R> {
    fn new(input: BufReader<Input<R>>) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(LARGEST_ZSTD_WINDOW_BYTES);
        Self { input, decoder, in_frame: false, error: None }
    }

    fn reason(&mut self) -> io::Error {
        self.input.get_mut().reason(Compression::Zstd)
    }

    /// False at the end of the file.
    fn begin_frame(&mut self) -> io::Result<bool> {
        if self.input.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.decoder.reset(&mut self.input) {
            Ok(()) => self.in_frame = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                let length = u64::from(length);
                if io::copy(&mut self.input.by_ref().take(length), &mut io::sink())? < length {
                    return Err(Compression::Zstd.ends_early());
                }
            }
            Err(FrameDecoderError::WindowSizeTooBig { requested, .. }) => {
                let reason = format!(
                    "the zstd data requires a window of {requested} bytes, more than {LARGEST_ZSTD_WINDOW_BYTES}"
                );
                return Err(io::Error::new(ErrorKind::InvalidData, reason));
            }
            Err(_) => return Err(self.reason()),
        }
        Ok(true)
    }

    fn decode_block(&mut self) -> io::Result<()> {
        if self.decoder.decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1)).is_err() {
            let reason = self.reason();
            // The end of the frame releases the bytes of the window.
            if self.decoder.decode_blocks(&ZSTD_LAST_BLOCK[..], BlockDecodingStrategy::UptoBlocks(1)).is_err()
            {
                return Err(reason);
            }
            self.error = Some(reason);
        }
        Ok(())
    }

    fn end_frame(&mut self) -> io::Result<()> {
        self.in_frame = false;
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(expected), Some(calculated)) if expected != calculated => Err(Compression::Zstd.damaged()),
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.in_frame {
                if !self.begin_frame()? {
                    return Ok(0);
                }
            } else if self.decoder.can_collect() > 0 {
                return self.decoder.read(out);
            } else if self.decoder.is_finished() {
                self.end_frame()?;
            } else {
                self.decode_block()?;
            }
        }
    }
}
