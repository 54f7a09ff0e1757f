//! What the figures need of one result, in a compact form that a collector loads at its start.
