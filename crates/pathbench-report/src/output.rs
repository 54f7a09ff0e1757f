//! Writing the report and the figures.

use crate::figure::Figure;
use crate::html;
use crate::result_set::ResultSet;
use pathbench_record::directory::ReadError;
use pathbench_record::file::OpenDirectory;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Whether this build draws PNG (feature `png`).
pub const PNG_AVAILABLE: bool = cfg!(feature = "png");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureFormat {
    Svg,
    SvgAndPng,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFiles {
    pub html: PathBuf,
    pub figures: Vec<PathBuf>,
}

#[derive(Debug, Error)]
pub enum ReportWriteError {
    #[error("cannot write {}: {source}; is the directory writable, and the disk not full?", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The lines of a run cannot be read; nothing was written.
    #[error(transparent)]
    Lines(Arc<ReadError>),
    #[cfg(feature = "png")]
    #[error(transparent)]
    Raster(#[from] crate::raster::RasterError),
    #[error(
        "this pathbench was built without PNG; build it with `cargo build --features png`, or convert the SVG files"
    )]
    NoRasteriser,
}

/// Writes `report.html` and every figure in `format` into `out`, and creates the directory `out` if necessary.
///
/// `timeline.svg` and `comparison.svg` for a plain result; `delay.svg` and `distribution.svg` if messages were sent;
/// `matrix.svg` if a matrix has variants; `mtu.svg` if packet sizes differ between paths or change;
/// `packet-sizes.svg` if packets were counted; `mobility.svg` if there were handovers; `links.svg` if links were
/// emulated; `timeline-upload.svg` and `timeline-download.svg` with data in both directions; `timeline-<variant>.svg`
/// if a matrix has many variants. With several patterns `overview.svg`, and the pattern in every other name:
/// `timeline-bulk.svg`. With several results each name is prefixed with the result's number and name.
///
/// # Errors
/// [`ReportWriteError`], naming the file.
pub fn write(sets: &[ResultSet], out: &Path, format: FigureFormat) -> Result<ReportFiles, ReportWriteError> {
    if format == FigureFormat::SvgAndPng && !PNG_AVAILABLE {
        return Err(ReportWriteError::NoRasteriser);
    }
    let (page, figures) = html::page(sets);
    if let Some(error) = sets.iter().find_map(|set| set.lines.failure()) {
        return Err(ReportWriteError::Lines(error));
    }
    write_page(&page, figures.iter().flatten(), out, format)
}

/// Writes the page and its figures into `out`.
pub(crate) fn write_page<'a>(
    page: &str,
    figures: impl Iterator<Item = &'a Figure>,
    out: &Path,
    format: FigureFormat,
) -> Result<ReportFiles, ReportWriteError> {
    if format == FigureFormat::SvgAndPng && !PNG_AVAILABLE {
        return Err(ReportWriteError::NoRasteriser);
    }
    let directory = OpenDirectory::create(out)
        .map_err(|source| ReportWriteError::File { path: out.to_owned(), source })?;
    let store = |name: &str, bytes: &[u8]| {
        let path = out.join(name);
        match directory.write(name, bytes) {
            Ok(()) => Ok(path),
            Err(source) => Err(ReportWriteError::File { path, source }),
        }
    };
    let html = store("report.html", page.as_bytes())?;
    let mut written = Vec::new();
    for figure in figures {
        written.push(store(&format!("{}.svg", figure.name), figure.svg.to_string().as_bytes())?);
        #[cfg(feature = "png")]
        if format == FigureFormat::SvgAndPng {
            let png = crate::raster::png(&figure.svg, crate::raster::FILE_SCALE)?;
            written.push(store(&format!("{}.png", figure.name), &png)?);
        }
    }
    Ok(ReportFiles { html, figures: written })
}
