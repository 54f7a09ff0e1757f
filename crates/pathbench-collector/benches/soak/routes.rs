//! The largest resident size while each public route is asked for a database of maximal results.

use super::client::HttpClient;
use super::{Bounds, PATIENCE, start};
use crate::support::costly::{largest, public_routes};
use crate::support::demo::{golden, packed};
use crate::support::process::line;
use crate::support::within;
use pathbench_api::submission::Submission;
use pathbench_testkit::soak::{ProcessReading, forget_peak};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Requests at once.
const REQUESTS: usize = 16;

/// Maximal results in the database: `results.csv` has 100 MB.
const RESULTS: usize = 200;

/// Prints the table.
///
/// # Errors
/// Where a route exceeds the bounds of the collector, or answers otherwise than with 200 or 503.
pub(crate) fn measure(bounds: &Bounds) -> Result<(), String> {
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let collector = start(bounds, place.path());
    let raw = packed(&golden("v1-messages"), "");
    let results: Vec<Submission> = (0..RESULTS).map(|_| largest(Some(&raw))).collect();
    for some in results.chunks(8) {
        let lines: Vec<String> = some.iter().map(line).collect();
        let answer = collector.submit(&lines);
        if answer.status != 201 {
            return Err(format!("a submission answers {}", answer.status));
        }
    }
    let all =
        within(PATIENCE, || (collector.get("/v1/results?limit=1").json()["all"] == RESULTS).then_some(()));
    all.ok_or("the results are not listed")?;
    let bound_bytes = bounds.bytes();
    println!("peak of each public route, {REQUESTS} requests at once, {RESULTS} maximal results");
    println!("before MB  peak MB  answer MB  statuses       route");
    let mut wrong = Vec::new();
    for (index, route) in public_routes(&collector, results[0].id).iter().enumerate() {
        let id = collector.pid().unsigned_abs();
        forget_peak(id)?;
        let before = ProcessReading::of_process(id)?;
        let http = HttpClient {
            collector: collector.address().parse().map_err(|_| "no address")?,
            local: Ipv4Addr::new(127, 30, index as u8, 1),
            patience: PATIENCE,
        };
        let answers: Vec<(u16, usize)> = std::thread::scope(|scope| {
            let asked: Vec<_> =
                (0..REQUESTS).map(|_| scope.spawn(|| http.ask("GET", route, &[], &[]))).collect();
            let answers = asked.into_iter().filter_map(|one| one.join().ok()?.ok());
            answers.map(|answer| (answer.status, answer.body.len())).collect()
        });
        let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
        for (status, _) in &answers {
            *statuses.entry(*status).or_default() += 1;
        }
        let largest = answers.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let peak_bytes = ProcessReading::of_process(id)?.peak_bytes;
        let listed: Vec<String> =
            statuses.iter().map(|(status, count)| format!("{count} × {status}")).collect();
        println!(
            "{:9.1}  {:7.1}  {:9.2}  {:13}  {route}",
            before.rss_bytes / 1e6,
            peak_bytes / 1e6,
            largest as f64 / 1e6,
            listed.join(", ")
        );
        if peak_bytes > bound_bytes {
            wrong.push(format!("{route}: {:.0} MB exceed {:.0} MB", peak_bytes / 1e6, bound_bytes / 1e6));
        }
        let is_expected = |status: &u16| matches!(status, 200 | 503);
        if answers.len() != REQUESTS || !statuses.keys().all(is_expected) || !statuses.contains_key(&200) {
            wrong.push(format!("{route}: {} answers, {listed:?}", answers.len()));
        }
    }
    match collector.stop() {
        Some(0) if wrong.is_empty() => Ok(()),
        Some(0) => Err(wrong.join("\n")),
        code => Err(format!("the collector ends with {code:?}\n{}", wrong.join("\n"))),
    }
}
