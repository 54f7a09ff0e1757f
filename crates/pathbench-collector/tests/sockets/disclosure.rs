//! Names of operators and servers that few people share, at every public route of a running collector.

use crate::support::costly::public_routes;
use crate::support::demo::{golden, packed};
use crate::support::process::{Collector, line, name, submission};
use crate::support::within;
use pathbench_api::Uuid;
use pathbench_api::submission::Submission;
use pathbench_collector::chart;
use serde_json::json;
use socket2::{Domain, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const NAMES: [&str; 2] = ["zwergnetz", "kellerserver"];

fn with_names(agent: u128) -> Submission {
    let mut one = submission();
    one.agent = Uuid::from_u128(agent);
    one.summary.server = Some(name("kellerserver"));
    for network in &mut one.summary.networks {
        network.operator = Some(name("Zwergnetz"));
    }
    let place = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden("v1-messages")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap().replace("test.example:4433", "kellerserver:4433");
        std::fs::write(place.path().join(path.file_name().unwrap()), text.replace("Louvain", "kellerserver"))
            .unwrap();
    }
    one.raw = Some(data_encoding::BASE64.encode(&packed(place.path(), "")));
    one
}

/// Submits from an address, and returns the status.
fn submit(collector: &Collector, client: Ipv4Addr, one: &Submission) -> String {
    let to: SocketAddr = collector.address().parse().unwrap();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((client, 0)).into()).unwrap();
    socket.connect_timeout(&to.into(), PATIENCE).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = line(one);
    let length = body.len();
    let head = "POST /v1/results HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length:";
    write!(&socket, "{head} {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    (&socket).read_to_string(&mut answer).unwrap();
    answer.get(9..12).unwrap().to_owned()
}

/// The routes at which everybody finds one of the names.
fn naming(collector: &Collector, id: Uuid) -> Vec<String> {
    let charts = chart::all().flat_map(|(name, _)| {
        ["json", "csv", "svg"].map(|extension| format!("/v1/charts/{name}.{extension}"))
    });
    let all = public_routes(collector, id).into_iter().chain(charts);
    let names = |route: &String| {
        let answer = collector.get(route);
        assert_eq!(answer.status, 200, "{route}: {}", answer.text());
        let body = if route.ends_with("/raw") {
            zstd::decode_all(answer.body.as_slice()).unwrap()
        } else {
            answer.body
        };
        let text = String::from_utf8_lossy(&body).to_lowercase();
        NAMES.iter().any(|name| text.contains(name))
    };
    all.filter(names).collect()
}

/// Agents are easy to invent: the results of one client, whatever agents it names, are those of one person.
#[test]
fn the_names_of_one_client_are_at_no_public_route() {
    let collector = Collector::start(&["--open", "--rate-limit", "0"]);
    let first = with_names(1);
    let sources = [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 1, 1), Ipv4Addr::new(127, 0, 2, 1)];
    assert_eq!(submit(&collector, sources[0], &first), "201");
    for agent in 2..=3 {
        assert_eq!(submit(&collector, sources[0], &with_names(agent)), "201");
    }
    let agent = Uuid::from_u128(1);
    let check_in = json!({ "agent": agent, "name": "a", "version": "0.1.0", "consent": "public" });
    assert_eq!(collector.request("POST", "/v1/check-in").json(&check_in).send().status, 200);
    let live = json!({
        "agent": "a", "server": "kellerserver", "runs_done": 0, "runs_planned": 1, "paths": [],
    });
    assert_eq!(collector.request("PUT", &format!("/v1/live/{agent}")).json(&live).send().status, 204);
    let has =
        |all: u64| within(PATIENCE, || (collector.get("/v1/results").json()["all"] == all).then_some(()));
    has(3).unwrap();
    assert_eq!(naming(&collector, first.id), Vec::<String>::new());
    for (agent, source) in [(4, sources[1]), (5, sources[2])] {
        assert_eq!(submit(&collector, source, &with_names(agent)), "201");
    }
    has(5).unwrap();
    let found = naming(&collector, first.id);
    for route in ["/v1/results?limit=200", "/v1/results.csv", "/results?limit=100"] {
        assert!(found.iter().any(|one| one == route), "{route}: {found:?}");
    }
}
