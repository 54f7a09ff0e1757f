//! Memory, time and turns: a client that asks for everything at its full rate leaves the others theirs.

use crate::support::costly::{bomb, largest, poison, public_routes};
use crate::support::demo::{golden, packed};
use crate::support::process::{Collector, DELETION_TOKEN, line, submission};
use crate::support::within;
use pathbench_api::Uuid;
use pathbench_api::submission::Submission;
use serde_json::json;
use socket2::{Domain, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HONEST: Ipv4Addr = Ipv4Addr::LOCALHOST;
const ATTACKERS: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 98), Ipv4Addr::new(127, 0, 0, 99)];
const PATIENCE: Duration = Duration::from_secs(120);

fn scene(options: &[&str], results: &[Submission]) -> Collector {
    let collector = Collector::start(&[&["--open", "--rate-limit", "0"], options].concat());
    for some in results.chunks(8) {
        let lines: Vec<String> = some.iter().map(line).collect();
        assert_eq!(collector.submit(&lines).status, 201);
    }
    let all = within(PATIENCE, || {
        (collector.get("/v1/results?limit=1").json()["all"] == results.len()).then_some(())
    });
    assert!(all.is_some());
    collector
}

fn connect(collector: &Collector, client: Ipv4Addr, path: &str) -> Socket {
    let to: SocketAddr = collector.address().parse().unwrap();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((client, 0)).into()).unwrap();
    socket.connect_timeout(&to.into(), PATIENCE).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(&socket, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    socket
}

/// The status, and the bytes of the whole answer.
fn get(collector: &Collector, client: Ipv4Addr, path: &str) -> (u16, Vec<u8>) {
    let mut answer = Vec::new();
    let _ = (&connect(collector, client, path)).read_to_end(&mut answer);
    let status = String::from_utf8_lossy(answer.get(9..12).unwrap_or_default()).parse().unwrap_or(0);
    (status, answer)
}

fn peak_bytes(collector: &Collector) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", collector.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}

#[test]
fn every_public_route_stays_within_the_memory_of_answers() {
    const ANSWER_BYTES: u64 = 64 << 20;
    /// The program, its threads, the bodies of the submissions, and turns.
    const OTHER_BYTES: u64 = 96 << 20;
    let raw = packed(&golden("v1-messages"), "");
    let results: Vec<Submission> = (0..16).map(|_| largest(Some(&raw))).collect();
    let collector = scene(&["--answer-memory", "64"], &results);
    for route in public_routes(&collector, results[0].id) {
        let answers: Vec<u16> = std::thread::scope(|scope| {
            let asked = [(); 16].map(|()| scope.spawn(|| get(&collector, HONEST, &route).0));
            asked.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(
            answers.contains(&200) && answers.iter().all(|status| matches!(status, 200 | 503)),
            "{route}: {answers:?}"
        );
        let peak = peak_bytes(&collector);
        assert!(peak < ANSWER_BYTES + OTHER_BYTES, "{} MiB at {route}", peak >> 20);
    }
}

#[test]
fn bombs_at_once_stay_within_the_memory_of_bodies() {
    const BODY_BYTES: u64 = 64 << 20;
    const OTHER_BYTES: u64 = 96 << 20;
    let collector = Collector::start(&["--open", "--rate-limit", "0", "--body-memory", "64"]);
    let bomb = bomb();
    let head = format!(
        "POST /v1/results HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: zstd\r\nContent-Length: {}\r\n\r\n",
        bomb.len()
    );
    let to: SocketAddr = collector.address().parse().unwrap();
    let sent: Vec<Socket> = (0..100_u8)
        .map(|client| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 1, client + 1), 0)).into()).unwrap();
            socket.connect_timeout(&to.into(), PATIENCE).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            (&socket).write_all(&[head.as_bytes(), &bomb].concat()).unwrap();
            socket
        })
        .collect();
    for socket in sent {
        let mut head = [0; 12];
        (&socket).read_exact(&mut head).unwrap();
        assert!(
            [b"HTTP/1.1 400", b"HTTP/1.1 422", b"HTTP/1.1 503", b"HTTP/1.1 413"].contains(&&head),
            "{head:?}"
        );
    }
    let peak = peak_bytes(&collector);
    assert!(peak < BODY_BYTES + OTHER_BYTES, "{} MiB", peak >> 20);
    assert_eq!(collector.submit(&[line(&submission())]).status, 201);
}

#[test]
fn a_client_at_its_full_rate_leaves_others_their_turns() {
    let results: Vec<Submission> = (0..16).map(|_| largest(None)).collect();
    let collector = scene(&[], &results);
    let is_over = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    let _ = get(&collector, ATTACKERS[0], "/v1/results.csv");
                }
            });
        }
        // Until the attacker has its turns.
        std::thread::sleep(Duration::from_millis(500));
        let served: Vec<(u16, Duration)> = (0..40)
            .map(|_| {
                #[expect(clippy::disallowed_methods, reason = "the test measures time")]
                let begun = std::time::Instant::now();
                (get(&collector, HONEST, "/v1/results?limit=1").0, begun.elapsed())
            })
            .collect();
        is_over.store(true, Ordering::SeqCst);
        served
    });
    assert!(served.iter().all(|(status, _)| *status == 200), "{served:?}");
    let mut times: Vec<Duration> = served.into_iter().map(|(_, time)| time).collect();
    times.sort_unstable();
    assert!(times[37] < Duration::from_secs(1), "p95 of {times:?}");
}

#[test]
fn poison_of_others_blocks_no_raw_part() {
    let good = largest(Some(&packed(&golden("v1-messages"), "")));
    let poison = poison();
    assert!(poison.len() < 50_000, "{} bytes", poison.len());
    let poisoned = [largest(Some(&poison)), largest(Some(&poison))];
    let collector = scene(&[], &[good.clone(), poisoned[0].clone(), poisoned[1].clone()]);
    let raw = |one: &Submission| format!("/v1/results/{}/raw", one.id);
    let asked: Vec<Socket> = ATTACKERS
        .into_iter()
        .zip(&poisoned)
        .flat_map(|(client, one)| [(); 4].map(|()| connect(&collector, client, &raw(one))))
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    // They leave, and their work ends.
    for socket in &asked {
        socket.shutdown(Shutdown::Both).unwrap();
    }
    drop(asked);
    let (status, answer) = get(&collector, HONEST, &raw(&good));
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer[..answer.len().min(300)]));
}

#[test]
fn a_client_has_its_results_and_agents_of_a_day_and_others_have_theirs() {
    let collector = scene(&["--client-results", "10", "--client-agents", "2", "--max-results", "14"], &[]);
    let lines = |count: usize| (0..count).map(|_| line(&submission())).collect::<Vec<_>>();
    let known = lines(8);
    assert_eq!(collector.submit(&known).status, 201);
    let used = collector.submit(&lines(3));
    assert_eq!(used.status, 429, "{}", used.text());
    assert!(used.headers["retry-after"].parse::<u64>().unwrap() > 60);
    // A repetition takes no place: it was given back.
    for _ in 0..3 {
        assert_eq!(collector.submit(&known[..2]).status, 200);
    }
    assert_eq!(collector.submit(&lines(2)).status, 201);
    let post = |client: Ipv4Addr, path: &str, body: &str| {
        let to: SocketAddr = collector.address().parse().unwrap();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((client, 0)).into()).unwrap();
        socket.connect_timeout(&to.into(), PATIENCE).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        write!(
            &socket,
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        (&socket).read_to_string(&mut answer).unwrap();
        answer.get(9..12).unwrap().to_owned()
    };
    assert_eq!(post(ATTACKERS[0], "/v1/results", &lines(3).join("\n")), "201");
    let all = within(PATIENCE, || (collector.get("/v1/results?limit=1").json()["all"] == 13).then_some(()));
    assert!(all.is_some());
    assert_eq!(post(ATTACKERS[1], "/v1/results", &lines(2).join("\n")), "503", "14 results are the most");
    let agent = |number: u128| {
        json!({ "agent": Uuid::from_u128(number), "name": "a", "version": "0.1.0", "consent": "public" })
            .to_string()
    };
    for (client, number, status) in [
        (HONEST, 1, "200"),
        (HONEST, 2, "200"),
        (HONEST, 3, "429"),
        (HONEST, 2, "200"),
        (ATTACKERS[0], 3, "200"),
    ] {
        assert_eq!(post(client, "/v1/check-in", &agent(number)), status, "agent {number}");
    }
}

/// No time is known after which a full disk has space: `Retry-After` would be a false promise, at which all agents come.
#[test]
fn a_full_disk_answers_507_to_results_and_goes_on_with_all_else() {
    // No disk has as much beside the reserve.
    let directory = tempfile::tempdir().unwrap();
    let roomy = Collector::start_in(directory.path(), &["--open", "--disk-reserve", "0"]);
    let known = submission();
    assert_eq!(roomy.submit(&[line(&known)]).status, 201);
    assert_eq!(roomy.stop(), Some(0));
    let collector = Collector::start_in(directory.path(), &["--open", "--disk-reserve", "1000000000"]);
    let new = line(&submission());
    for _ in 0..2 {
        let full = collector.submit(&[new.clone(), line(&submission())]);
        assert_eq!((full.status, full.codes()), (507, vec![507, 507]), "{}", full.text());
        assert!(!full.headers.contains_key("retry-after"));
        for one in full.json()["results"].as_array().unwrap() {
            assert_eq!((&one["status"], &one["retryable"]), (&json!("busy"), &json!(true)));
            assert!(one["error"].as_str().unwrap().contains("disk is full"), "{one}");
        }
    }
    // A repetition takes no space, and a deletion frees some.
    assert_eq!(collector.submit(&[line(&known)]).codes(), [200]);
    let path = format!("/v1/results/{}", known.id);
    assert_eq!(collector.get(&path).status, 200);
    assert_eq!(collector.request("DELETE", &path).bearer(DELETION_TOKEN).send().json()["deleted"], 1);
}

/// A file of lines without text, which no bound of texts counts.
fn empty_lines() -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("run.json"), json!({ "scenario": {} }).to_string()).unwrap();
    std::fs::write(place.path().join("events.jsonl"), vec![b'\n'; 64 << 20]).unwrap();
    packed(place.path(), "")
}

/// Two clients hold both turns of unpacking for a moment only: what takes long has a turn of its own.
#[test]
fn raw_parts_that_take_long_keep_no_small_one_waiting() {
    let good: Vec<Submission> = (0..4).map(|_| largest(Some(&packed(&golden("v1-messages"), "")))).collect();
    let heavy = empty_lines();
    assert!(heavy.len() < 50_000, "{} bytes", heavy.len());
    let heavy = [largest(Some(&heavy)), largest(Some(&heavy))];
    let collector = scene(&[], &[&good[..], &heavy].concat());
    let path = |one: &Submission| format!("/v1/results/{}/raw", one.id);
    let asked = [0, 1].map(|index| connect(&collector, ATTACKERS[index], &path(&heavy[index])));
    for one in &good {
        let (status, answer) = get(&collector, HONEST, &path(one));
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer[..answer.len().min(300)]));
    }
    drop(asked);
}
