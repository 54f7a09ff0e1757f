//! The pages of the dashboard: HTML from the server, readable without scripts.

mod about;
mod assets;
mod charts;
mod detail;
mod element;
mod filters;
mod front;
mod live;
mod results;
mod servers;
mod shell;

use crate::reader::ResultReader;
use axum::Router;
use axum::routing::get;
use std::sync::Arc;

/// The pages, and what they load.
pub fn routes() -> Router<Arc<ResultReader>> {
    Router::new()
        .route("/", get(front::page))
        .route("/charts", get(charts::index))
        .route("/charts/{name}", get(charts::one))
        .route("/results", get(results::page))
        .route("/results/{id}", get(detail::page))
        .route("/results/{id}/report", get(detail::report))
        .route("/live", get(live::page))
        .route("/servers", get(servers::page))
        .route("/about", get(about::page))
        .route("/assets/{name}", get(assets::asset))
        .route("/favicon.ico", get(assets::icon))
}
