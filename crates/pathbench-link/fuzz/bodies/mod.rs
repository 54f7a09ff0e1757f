//! The bodies of the fuzz targets, which the tests run as well.

pub(crate) mod traces;
