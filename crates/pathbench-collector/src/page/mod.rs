//! The pages of the dashboard.
