//! A collector as a service: TLS, a graceful end, several collectors that share one database and one raw store.

use crate::support::process::{Collector, DELETION_TOKEN, line, program, run, submission};
use crate::support::{postgres, s3, within};
use pathbench_api::submission::Submission;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn with_raw_part() -> Submission {
    let mut one = submission();
    one.raw = Some(data_encoding::BASE64.encode(&zstd::encode_all(&b"a result"[..], 3).unwrap()));
    one
}

#[test]
fn tls_with_certificate_files_serves_clients_that_trust_them_only() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    std::fs::write(path("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let collector = Collector::start(&["--open", "--cert", &path("cert.pem"), "--key", &path("key.pem")]);
    assert!(collector.url.starts_with("https://"), "{}", collector.url);
    let golden = pathbench_kerneltest::checkout().join("crates/pathbench-record/tests/golden/v1");
    let submit = |options: &[&str]| {
        Command::new(program().with_file_name("pathbench"))
            .args(["submit", golden.to_str().unwrap(), "--collector", &collector.url, "--consent", "public"])
            .args(options)
            .envs(["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"].map(|name| (name, place.path())))
            .output()
            .unwrap()
    };
    let distrusted = submit(&[]);
    assert!(!distrusted.status.success(), "{}", String::from_utf8_lossy(&distrusted.stderr));
    let trusted = submit(&["--collector-ca", &path("cert.pem")]);
    assert!(trusted.status.success(), "{}", String::from_utf8_lossy(&trusted.stderr));
    // Plain HTTP gets no answer, and other clients are served.
    let mut plain = TcpStream::connect(collector.address()).unwrap();
    plain.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"));
    assert!(submit(&["--collector-ca", &path("cert.pem")]).status.success());
}

#[test]
fn a_request_in_progress_is_finished_at_the_end() {
    let collector = Collector::start(&["--open"]);
    let body = line(&submission());
    let mut stream = TcpStream::connect(collector.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "POST /v1/results HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
    let (first, rest) = body.split_at(100);
    stream.write_all(first.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let address = collector.address();
    let ended = std::thread::spawn(move || collector.stop());
    // New connections are refused while the old one is served.
    assert!(within(PATIENCE, || TcpStream::connect(&address).is_err().then_some(())).is_some());
    stream.write_all(rest.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(ended.join().unwrap(), Some(0));
}

#[test]
fn several_collectors_share_a_database_a_bucket_and_a_secret() {
    let mut database = postgres::Server::start();
    let bucket = s3::Server::start();
    let place = tempfile::tempdir().unwrap();
    let secret = place.path().join("secret.key");
    let url = database.database("shared");
    let raw = bucket.url("results/parts");
    let options = ["--open", "--database", &url, "--raw", &raw, "--secret", secret.to_str().unwrap()];
    let environment: Vec<(&str, String)> = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
        .into_iter()
        .filter_map(|name| Some((name, s3::credentials(name)?)))
        .collect();
    let start = |name: &str| Collector::start_with(&place.path().join(name), &options, &environment);
    let (one, other) = (start("one"), start("other"));
    let submitted = with_raw_part();
    assert_eq!(one.submit(&[line(&submitted)]).status, 201);
    assert_eq!(other.submit(&[line(&submitted)]).status, 200);
    let path = format!("/v1/results/{}", submitted.id);
    let shown = within(PATIENCE, || (other.get("/v1/results").json()["all"] == 1).then_some(()));
    assert!(shown.is_some(), "the other collector shows the result");
    assert_eq!(other.get(&path).status, 200);
    let mut token = vec!["token", "--admin"];
    token.extend(&options[1..]);
    let admin = String::from_utf8(
        Command::new(program()).args(&token).envs(environment.iter().cloned()).output().unwrap().stdout,
    )
    .unwrap();
    for collector in [&one, &other] {
        let raw = collector.request("GET", &format!("/admin{path}/raw")).bearer(&admin).send();
        assert_eq!(raw.status, 200, "{}", raw.text());
        assert_eq!(zstd::decode_all(raw.body.as_slice()).unwrap(), b"a result");
    }
    assert_eq!(other.request("DELETE", &path).bearer(DELETION_TOKEN).send().json()["deleted"], 1);
    let gone = within(PATIENCE, || (one.get("/v1/results").json()["all"] == 0).then_some(()));
    assert!(gone.is_some(), "the first collector forgets the result");
    assert_eq!(one.submit(&[line(&submitted)]).status, 410);

    // Without its database a collector keeps nothing, says when to come again, and names no place.
    database.stop();
    let submitted = with_raw_part();
    for answer in [one.submit(&[line(&submitted)]), one.get("/ready"), one.get(&path)] {
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(answer.headers.contains_key("retry-after"), "{:?}", answer.headers);
        let text = answer.text();
        assert!(!text.contains("/tmp") && !text.contains("postgres"), "{text}");
    }
    assert_eq!(one.get("/health").status, 200);
}

#[test]
fn the_shipped_unit_is_hardened_and_its_options_exist() {
    let mut words = pathbench_kerneltest::command_of_unit(
        "pathbench-collector.service",
        &[
            "DynamicUser=yes",
            "CapabilityBoundingSet=\n",
            // As the default of --dir for root.
            "StateDirectory=pathbench-collector\n",
        ],
    );
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    assert!(help.contains("/var/lib/pathbench-collector for root"), "{help}");
    // The first unknown option is the only one that is reported.
    words.push("--unknown".to_owned());
    let output = run(&words);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && message.contains("'--unknown'"), "{message}");
}
