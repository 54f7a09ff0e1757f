//! The reading side: columns that follow the database, and the pages and files that are made of them.
//!
//! A server mounts [`routes`] once for everybody and once, below another prefix and behind a credential, for the operator.
//! Nothing here writes to the database.

pub(crate) mod answer;
pub(crate) mod api;
mod cache;
pub(crate) mod entry;
mod follow;
mod listing;
pub mod live;
mod parts;
pub mod query;
pub mod report;
mod results;
pub mod rows;
mod shown;
pub mod unpacked;

pub use follow::{follow, load};
pub use results::{FilterChoices, ResultReader};

use axum::Router;
use axum::routing::get;
use std::sync::Arc;

/// The read-only API. Requests carry a [`crate::viewer::View`] in their extensions.
pub fn routes() -> Router<Arc<ResultReader>> {
    Router::new()
        .route("/v1/results", get(api::results))
        .route("/v1/results.csv", get(api::results_csv))
        .route("/v1/results.parquet", get(api::results_parquet))
        .route("/v1/results/{id}", get(api::result))
        .route("/v1/results/{id}/raw", get(api::raw))
        .route("/v1/charts", get(api::charts))
        .route("/v1/charts/{file}", get(api::chart))
        .route("/v1/live", get(api::live))
}
