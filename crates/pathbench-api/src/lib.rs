//! The records that agents, test servers and collectors exchange: submissions with their summary and consent, check-in,
//! schedules, and the anonymous form of public data.
//!
//! Both ends use these types, so a collector validates what an agent writes with the rules that the agent follows. The
//! crate is pure: bytes, time and randomness are passed in. It never opens a socket or a file, and never reads a clock.
//!
//! # Modules
//! - `anonymise`: the anonymous form of a result: what everybody may read of it
//! - `bounds`: limits that both ends keep: an agent sends nothing beyond them, a collector rejects everything
//!   beyond them
//! - `check_in`: check-in: an agent reports itself and gets servers, tokens and experiments
//! - `consent`: the consent to the use of results: asked once, kept in a file, and a level in every submission
//! - `deletion`: deletion: the deletion token of results is the credential
//! - `digest`: SHA-256 digests: of the lines of a batch, of raw parts, and of deletion tokens
//! - `experiment`: experiments: what agents run, against which servers, and when
//! - `live`: the measurements of an agent at this moment, for the page of running measurements
//! - `name`: names from other hosts: bounded, printable text
//! - `problem`: the errors that a collector answers with, as JSON
//! - `submission`: A result as it is submitted: one line of a batch
//! - `summary`: the summary of a result: what a collector's figures are computed from, in at most a few kilobytes
//! - `token`: tokens that a server's operator issues to restrict who can load the server

pub mod anonymise;
pub mod bounds;
pub mod check_in;
pub mod consent;
pub mod deletion;
pub mod digest;
pub mod experiment;
pub mod live;
pub mod name;
pub mod problem;
pub mod submission;
pub mod summary;
pub mod token;

pub use uuid::Uuid;
