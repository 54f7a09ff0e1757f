//! The records that agents, test servers and collectors exchange: submissions with their summary and consent, check-in,
//! schedules, and the anonymous form of public data.
//!
//! Both ends use these types, so a collector validates what an agent writes with the rules that the agent follows. The
//! crate is pure: bytes, time and randomness are passed in. It never opens a socket or a file, and never reads a clock.

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
