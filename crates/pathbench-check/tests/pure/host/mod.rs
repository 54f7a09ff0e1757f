//! Facts about a host → findings. Each misconfiguration is a row: the change of a healthy host, and the problems or
//! advice that follow.

mod facts;
mod model;
mod properties;
mod situations;
mod table;
