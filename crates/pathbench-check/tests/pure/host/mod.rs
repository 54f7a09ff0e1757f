//! Facts about a host → findings. Each misconfiguration is a row: the change of a healthy host, and the problems or
//! advice that follow.

pub(crate) mod facts;
mod properties;
mod table;
