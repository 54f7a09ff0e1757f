//! The agent.
pub(crate) mod limits;
