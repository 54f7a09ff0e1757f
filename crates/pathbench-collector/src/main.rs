//! `pathbench-collector`, which `pathbench collect` starts.

fn main() {}
