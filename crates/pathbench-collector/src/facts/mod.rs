//! The data of one result that the figures need, in a compact form that a collector loads at its start.
//!
//! The names of public results are in the anonymous form: the collector makes it, too.

pub mod bucket;
mod coding;
mod derivation;
mod layout;
mod source;

pub use bucket::Bucket;
pub use coding::{FactsError, decode, encode};
pub use layout::{
    FactNames, Facts, FamilyFact, GAIN_PATTERNS, GAIN_TRANSPORTS, GAINS, Handover, KINDS, MEASURES, MODES,
    MOST_NETWORKS, PairFact, REASONS, Reach, SecondPath, TRANSPORTS, figure_index, gain_index, measure,
};
pub use source::Source;
