//! The test servers and their load.

use super::shell::{Answer, Shell, problem};
use crate::reader::ResultReader;
use crate::reader::answer::read;
use crate::refusal::Refusal;
use crate::store::record::{KnownServer, records};
use crate::store::{Document, DocumentKind};
use crate::viewer::{View, Viewer};
use axum::extract::State;
use maud::{Markup, html};
use pathbench_api::anonymise::Anonymiser;
use pathbench_api::check_in::SERVER_EXPIRY_MS;
use pathbench_record::text::duration_ms;
use std::sync::Arc;

/// Servers in the table.
const MOST_SERVERS: usize = 500;

struct Server {
    name: String,
    known: KnownServer,
    age_ms: u64,
}

pub(super) async fn page(State(reader): State<Arc<ResultReader>>, view: View) -> Answer {
    let servers = read(&reader, |reader| servers(reader)).await.map_err(problem(view))?;
    let content = html! {
        h1 { "Test servers" }
        @if servers.is_empty() { p { "No test server has reported yet." } }
        @else { (table(view, &servers)) }
    };
    Ok(Shell::new(view, "Test servers").with_path("/servers").page(&content))
}

fn servers(reader: &ResultReader) -> Result<Vec<Server>, Refusal> {
    let now_ms = reader.clock.unix_ms();
    let reports = records(reader.database.as_ref(), DocumentKind::ServerReport)?.into_iter();
    let of = |(document, known): (Document, KnownServer)| {
        let age_ms = now_ms.saturating_sub(document.updated_ms);
        Server { name: document.key, known, age_ms }
    };
    Ok(reports.map(of).take(MOST_SERVERS).collect())
}

fn table(view: View, servers: &[Server]) -> Markup {
    let is_operator = view.viewer == Viewer::Operator;
    html! {
        div.scroll role="group" tabindex="0" aria-label="Test servers" { table {
            caption.hidden { "Test servers" }
            thead { tr {
                @for heading in ["Name", "State", "Running tests", "Transports", "Version"] { th scope="col" { (heading) } }
                @if is_operator { th scope="col" { "Address" } }
            } }
            tbody { @for one in servers { (row(is_operator, one)) } }
        } }
    }
}

fn row(is_operator: bool, one: &Server) -> Markup {
    let mut anonymiser = Anonymiser::default();
    anonymiser.learn_server(&one.name);
    let text = |text: &str| if is_operator { text.to_owned() } else { anonymiser.text(text) };
    let KnownServer { address, report } = &one.known;
    let state = match () {
        () if one.age_ms > SERVER_EXPIRY_MS => format!("no report for {}", duration_ms(one.age_ms as f64)),
        () if report.draining => "draining".to_owned(),
        () if report.tests >= report.max_tests => "busy".to_owned(),
        () => "ready".to_owned(),
    };
    let transports: Vec<&str> = report.transports.iter().take(4).map(|one| one.name()).collect();
    html! {
        tr.dim[one.age_ms > SERVER_EXPIRY_MS] {
            th scope="row" { (text(&one.name)) }
            td { (state) }
            td {
                progress.meter max=(report.max_tests.max(1)) value=(report.tests.min(report.max_tests))
                    aria-label=(format!("load of {}", text(&one.name))) {}
                (report.tests) " of " (report.max_tests)
            }
            td { (transports.join(", ")) }
            td { (text(report.version.as_str())) }
            @if is_operator { td { (address) } }
        }
    }
}
