//! Facts about a host → findings. Each misconfiguration is a row: the change of a healthy host, and the problems or
//! advice that follow.

pub(crate) mod facts;
mod managers;
mod model;
mod properties;
mod situations;
pub(crate) mod table;
