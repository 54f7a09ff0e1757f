//! Packets as bytes: segmentation and captures.

#![allow(clippy::unwrap_used, reason = "samples of tests")]

mod captures;
mod segmentation;
