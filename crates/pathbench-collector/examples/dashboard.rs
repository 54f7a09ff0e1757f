//! The dashboard with synthetic results: `cargo run -p pathbench-collector --example dashboard [RESULTS] [ADDRESS]`.

#![allow(clippy::unwrap_used, reason = "an example ends at the first error")]

#[path = "../tests/support"]
#[allow(dead_code, unreachable_pub, reason = "the example uses a part")]
#[allow(clippy::unwrap_used, reason = "an example ends with a failure")]
mod support {
    pub mod demo;
    pub mod memory;
    pub mod synthetic;
}

use axum::{Extension, Router};
use pathbench_api::consent::Consent;
use pathbench_collector::http::reading_routes;
use pathbench_collector::viewer::View;
use support::demo::Demo;
use support::synthetic::Campaign;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let results = arguments.next().map_or(5000, |text| text.parse().unwrap());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8480".to_owned());
    let demo = Demo::new(Campaign::default(), results);
    demo.put_live("1", "phone of the lab", Consent::Public);
    demo.put_live("2", "van 7", Consent::Public);
    demo.put_live("3", "private laptop", Consent::Private);
    demo.put_server("europe.example", "192.0.2.7:4433", 1);
    demo.put_server("asia.example", "198.51.100.7:4433", 4);
    let operator = reading_routes().layer(Extension(View::OPERATOR));
    let app =
        Router::new().nest("/admin", operator).merge(reading_routes().layer(Extension(View::EVERYBODY)));
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    axum::serve(listener, app.with_state(demo.reader)).await.unwrap();
}
