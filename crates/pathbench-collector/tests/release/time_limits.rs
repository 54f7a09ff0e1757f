//! Clients that send or read slowly, for as long as the collector's time limits: 30 s to 64 s a test.

use crate::support::connections::{connect, is_alive, rest};
use crate::support::process::{Collector, line, submission};
use crate::support::within;
use std::io::{Read as _, Write as _};
use std::time::Duration;

pathbench_testkit::tests!(
    [] =>
        a_body_that_dribbles_is_given_up,
        a_body_at_one_megabit_per_second_has_more_than_a_minute,
        answers_that_nobody_reads_are_bounded_in_memory_and_time
);

fn a_body_that_dribbles_is_given_up() {
    let collector = Collector::start(&["--open"]);
    let mut stream = connect(&collector);
    stream.write_all(b"POST /v1/results HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n").unwrap();
    let mut writer = stream.try_clone().unwrap();
    std::thread::spawn(move || {
        while writer.write_all(b"{").is_ok() {
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let answer = rest(stream);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(is_alive(&collector));
}

fn a_body_at_one_megabit_per_second_has_more_than_a_minute() {
    let collector = Collector::start(&["--open"]);
    let mut stream = connect(&collector);
    let line = line(&submission());
    let (empty_lines, seconds) = (vec![b'\n'; 125_000], 64);
    let length = empty_lines.len() * seconds + line.len();
    let head = format!(
        "POST /v1/results HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    for _ in 0..seconds {
        stream.write_all(&empty_lines).unwrap();
        std::thread::sleep(Duration::from_secs(1));
    }
    stream.write_all(line.as_bytes()).unwrap();
    let answer = rest(stream);
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

fn answers_that_nobody_reads_are_bounded_in_memory_and_time() {
    let collector = Collector::start(&["--open", "--answer-memory", "32", "--rate-limit", "0"]);
    let admin = collector.command(&["token", "--admin"]);
    let mut result = submission();
    let raw = [b"\x28\xb5\x2f\xfd".as_slice(), &vec![7; (8 << 20) - 4]].concat();
    result.raw = Some(data_encoding::BASE64.encode(&raw));
    assert_eq!(collector.submit(&[line(&result)]).status, 201);
    let path = format!("/admin/v1/results/{}/raw", result.id);
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n", admin.trim());
    let ask = || {
        let mut stream = connect(&collector);
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (stream, String::from_utf8_lossy(&head[9..]).into_owned())
    };
    let mut unread = Vec::new();
    for _ in 0..5 {
        let (stream, status) = ask();
        match status.as_str() {
            "200" => unread.push(stream),
            status => assert_eq!(status, "503"),
        }
    }
    assert!((1..=4).contains(&unread.len()), "{} answers of 8 MiB fit in 32 MiB", unread.len());
    assert!(is_alive(&collector));
    // The connections stay open, and the collector ends them.
    let served = within(Duration::from_secs(180), || (ask().1 == "200").then_some(()));
    assert!(served.is_some(), "answers keep their memory");
    let is_cut = |stream| rest(stream).len() < raw.len();
    assert!(unread.into_iter().any(is_cut), "all answers were sent");
}
