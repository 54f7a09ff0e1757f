//! Capture files of all formats, whole and damaged.

mod compressed;
mod damaged;
mod files;
mod formats;
mod properties;
