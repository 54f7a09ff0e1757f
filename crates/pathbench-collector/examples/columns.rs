//! Memory and time of the columns: `cargo run --release -p pathbench-collector --example columns [RESULTS]`.

#![allow(clippy::unwrap_used, reason = "an example ends at the first error")]
#![allow(clippy::print_stdout, reason = "the output of a benchmark")]

#[path = "../tests/support"]
#[allow(dead_code, unreachable_pub, reason = "the example uses a part")]
mod support {
    pub mod synthetic;
}

use pathbench_api::Uuid;
use pathbench_api::consent::Consent;
use pathbench_collector::chart::{FRONT, Scene, all};
use pathbench_collector::clock::{Clock as _, RealClock};
use pathbench_collector::columns::{Columns, Filter};
use pathbench_collector::facts::encode;
use pathbench_collector::store::Change;
use pathbench_collector::viewer::Viewer;
use pathbench_record::transport::Transport;
use support::synthetic::{Campaign, FIRST_MS};

/// Distinct results; all others repeat their facts.
const DISTINCT: u64 = 20_000;

fn main() {
    let results = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().unwrap());
    let clock = RealClock::default();
    let campaign = Campaign { agents: 5_000, days: 365, public: 1.0, ..Campaign::default() };
    let distinct = (0..DISTINCT.min(results)).map(|index| {
        let checked = campaign.checked(index);
        (checked.submission.agent, encode(&checked))
    });
    let distinct: Vec<(Uuid, Vec<u8>)> = distinct.collect();
    let before = resident_bytes();
    let started = clock.monotonic();
    let mut columns = Columns::default();
    for first in (1..=results).step_by(2000) {
        let change = |sequence: u64| {
            let (agent, facts) = distinct[(sequence % DISTINCT.min(results)) as usize].clone();
            let id = Uuid::from_u128(u128::from(sequence));
            Change::Added { sequence, id, agent, consent: Consent::Public, received_ms: 0, facts }
        };
        let changes: Vec<Change> = (first..(first + 2000).min(results + 1)).map(change).collect();
        columns.apply(&changes);
    }
    let took = clock.monotonic().saturating_sub(started);
    let bytes = resident_bytes().saturating_sub(before) / results;
    println!("{results} results: loaded in {took:.1?}, {bytes} bytes a result");
    let everybody = Filter::new(Viewer::Everybody);
    let since_s = Some((FIRST_MS / 1000) as u32 + 335 * 86_400);
    for (name, filter) in [
        ("all", everybody.clone()),
        ("last 30 days", Filter { since_s, ..everybody.clone() }),
        ("one server", Filter { server: Some("asia.example".to_owned()), ..everybody.clone() }),
        ("one operator", Filter { operator: Some("Blue & Co".to_owned()), ..everybody.clone() }),
        ("text", Filter { text: Some("o'hara".to_owned()), ..everybody.clone() }),
        ("transport", Filter { transports: vec![Transport::Mpquic], ..everybody }),
    ] {
        let time = |work: &dyn Fn()| {
            // The least disturbed of several.
            let times = (0..15).map(|_| {
                let started = clock.monotonic();
                work();
                clock.monotonic().saturating_sub(started)
            });
            times.min().unwrap()
        };
        let select = time(&|| drop(columns.select(&filter)));
        let page = time(&|| {
            let selection = columns.select(&filter);
            assert!(columns.newest(&selection, None, 25).len() == 25);
        });
        let charts = |names: &[&str]| {
            let scene = Scene::new(&columns, &filter);
            for name in names {
                drop(scene.chart(name).unwrap());
            }
        };
        let front = time(&|| charts(&FRONT));
        let names: Vec<&str> = all().map(|(name, _)| name).collect();
        let every = time(&|| charts(&names));
        let selected = columns.select(&filter).len();
        println!(
            "{name}: {selected} results; filter {select:.1?}, page {page:.1?}, front page {front:.1?}, all charts {every:.1?}"
        );
        if name == "all" {
            for chart in names {
                println!("  {chart} {:.1?}", time(&|| charts(&[chart])));
            }
        }
    }
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
