//! `test --record` and `roam --record` in a lab: the recorded scenario is that of the lab, as far as it can be measured.

use crate::support::measured::Measured;
use crate::support::standing::{Lab, SERVER, Server};
use crate::support::{Finished, binary, finish};
use pathbench_record::document::{DirectionFigures, LinkFigures, LinkRecord};
use std::thread;

/// A preset, and the keys that the test changes in it.
struct Line {
    name: &'static str,
    preset: &'static str,
    changes: &'static str,
    /// Loss of upload and download.
    loss: [Loss; 2],
    /// Loss of the attempts and pause of the link-layer retransmission, which takes a part of the rate.
    arq: Option<(f64, f64)>,
}

#[derive(Debug, Clone, Copy)]
enum Loss {
    Random(f64),
    /// A share for a time once in longer than the measurement takes, which meets it or not.
    Burst {
        loss: f64,
        seconds: f64,
    },
}

const NONE: [Loss; 2] = [Loss::Random(0.0); 2];
/// `leo-satellite`.
const BURST: [Loss; 2] = [Loss::Burst { loss: 0.2, seconds: 0.14 }; 2];

/// The server's default congestion control, which the machine chooses, may be one that fills no queue.
fn scenario(lines: &[Line]) -> String {
    let path = |line: &Line| {
        format!("[[path]]\nname = \"{}\"\npreset = \"{}\"\n{}\n", line.name, line.preset, line.changes)
    };
    let paths: String = lines.iter().map(path).collect();
    format!(
        "description = \"lines\"\n{paths}[host.server.sysctl]\n\"net.ipv4.tcp_congestion_control\" = \"reno\"\n"
    )
}

fn client(lab: &Lab, server: &Server, command: &str, options: &[&str]) -> Finished {
    let program = binary();
    let begin = [program.to_str().unwrap(), command, SERVER, "--fingerprint", &server.fingerprint];
    finish(&mut lab.exec("client", &[&begin[..], options].concat()))
}

/// The links of a scenario, requested and calibrated, from a short run over it.
fn links(lab: &Lab, file: &str, options: &[&str]) -> (Measured, Vec<LinkRecord>) {
    let out = format!("result-{file}");
    let run = [&["lab", "run", file, "--out", &out, "--no-report", "--repeat", "1"], options].concat();
    let finished = lab.work.run(&run);
    let measured = Measured::read(&lab.work.path().join(out), finished).expect(0);
    let links = measured.document.links.clone();
    (measured, links)
}

/// The rate that full packets get: retransmissions take a part.
fn delivered_bps(line: &Line, figures: &LinkFigures, rate_bps: f64) -> f64 {
    let Some((loss, pause)) = line.arq else { return rate_bps };
    let transmission = f64::from(figures.mtu_bytes + 14) * 8.0 / rate_bps;
    rate_bps * transmission / (transmission + loss / (1.0 - loss) * (transmission + pause))
}

/// Lost and sent datagrams of each direction, from the comments.
fn counts(text: &str) -> Vec<[f64; 2]> {
    let of_line = |line: &str| {
        let counts =
            line.split_once(" datagrams of this direction")?.0.rsplit(' ').take(3).collect::<Vec<_>>();
        Some([counts[2].parse().ok()?, counts[0].parse().ok()?])
    };
    text.lines().filter_map(of_line).collect()
}

/// 3.3 standard deviations of a binomial distribution: 99.9 %.
fn check_loss(expected: Loss, [lost, sent]: [f64; 2], text: &str) {
    let deviation = |share: f64| 3.3 * (sent * share * (1.0 - share)).sqrt();
    let range = match expected {
        Loss::Random(share) => {
            let tolerance = deviation(share).max(0.1 * share * sent);
            // A busy host loses single packets itself.
            share * sent - tolerance..=share * sent + tolerance + 2.0
        }
        Loss::Burst { loss, seconds } => {
            let share = loss * seconds / 6.0;
            0.0..=share * sent + deviation(share) + 2.0
        }
    };
    assert!(range.contains(&lost), "{lost} of {sent} lost, {expected:?}\n{text}");
}

/// Whether a link of the recorded scenario is that of the lab.
fn compare(line: &Line, original: &LinkRecord, recorded: &LinkRecord, text: &str) {
    assert_eq!(original.name, recorded.name);
    let close = |what: &str, wanted: f64, found: f64| {
        let ratio = found / wanted;
        assert!((ratio - 1.0).abs() <= 0.1, "{} {what}: {found} of {wanted}\n{text}", line.name);
    };
    let (wanted, found) = (&original.requested, &recorded.requested);
    assert_eq!(wanted.mtu_bytes, found.mtu_bytes, "{text}");
    for (direction, requested, found) in
        [("upload", &wanted.forward, &found.forward), ("download", &wanted.reverse, &found.reverse)]
    {
        let rate_bps = delivered_bps(line, wanted, requested.rate_bps.unwrap() as f64);
        let found_bps = found.rate_bps.unwrap() as f64;
        close(&format!("{direction} rate"), rate_bps, found_bps);
        close(&format!("{direction} delay"), requested.delay_ms.unwrap(), found.delay_ms.unwrap());
        // The time that a full queue takes.
        let queue_ms = |figures: &DirectionFigures, bps: f64| figures.queue_bytes.unwrap() as f64 * 8e3 / bps;
        close(&format!("{direction} queue"), queue_ms(requested, rate_bps), queue_ms(found, found_bps));
    }
    // The calibration measures the recorded link like the original; with link-layer retransmission it measures no rate.
    let (wanted, found) = (original.measured.as_ref().unwrap(), recorded.measured.as_ref().unwrap());
    for (wanted, found) in [(wanted.forward_bps, found.forward_bps), (wanted.reverse_bps, found.reverse_bps)]
    {
        if let Some(wanted) = wanted {
            close("calibrated rate", wanted as f64, found.unwrap() as f64);
        }
    }
}

/// Measures the lines of a lab, and compares the lab of the recorded scenario with it.
fn record(lines: &[Line]) -> (Lab, Server) {
    let lab = Lab::of(&scenario(lines), &[]);
    let server = lab.serve(&["--open"]);
    let options =
        ["--patterns", "ping", "--transports", "tcp", "--repeat", "1", "--out", "tested", "--no-report"];
    let file = ["--record", "recorded.toml"];
    let tested = client(&lab, &server, "test", &[&options[..], &file].concat()).expect(0);
    let text = std::fs::read_to_string(lab.work.path().join("recorded.toml")).unwrap();
    assert!(tested.stdout.contains("recorded.toml"), "{tested:#?}");
    let label = format!("tcp@{}", lines[0].name);
    let options = ["--transports", &label, "--duration", "1s"];
    let ((_, original), (_, recorded)) = thread::scope(|scope| {
        let original = scope.spawn(|| links(&lab, "two.toml", &options));
        let recorded = links(&lab, "recorded.toml", &options);
        (original.join().unwrap(), recorded)
    });
    let counts = counts(&text);
    assert_eq!((recorded.len(), counts.len()), (lines.len(), 2 * lines.len()), "{text}");
    for (index, line) in lines.iter().enumerate() {
        compare(line, &original[index], &recorded[index], &text);
        for (expected, counts) in line.loss.into_iter().zip(&counts[2 * index..]) {
            check_loss(expected, *counts, &text);
        }
    }
    (lab, server)
}

/// Rates that differ by direction, a queue of more than a second, and random loss that differs by direction.
#[test]
fn lines_of_dsl_and_lte_are_recorded_as_they_are() {
    let lossy = "upload.loss = \"1%\"\ndownload.loss = \"3%\"";
    let (lab, server) = record(&[
        Line { name: "dsl", preset: "adsl", changes: "", loss: NONE, arq: None },
        Line {
            name: "lte",
            preset: "lte",
            changes: lossy,
            loss: [Loss::Random(0.01), Loss::Random(0.03)],
            arq: None,
        },
    ]);
    // Nothing overwrites the recorded lines, and the refusal comes before the measurement.
    let again = client(&lab, &server, "test", &["--record", "recorded.toml", "--out", "again"]).expect(2);
    assert!(again.stderr.contains("recorded.toml: the file exists already"), "{again:#?}");
    assert!(!lab.work.path().join("again").exists());
}

/// Link-layer retransmissions, short queues beside jitter, and losses in bursts; slower than the presets, because two
/// processors emulate the lines of two tests.
#[test]
fn lines_of_wifi_and_a_satellite_are_recorded_as_they_are() {
    record(&[
        Line {
            name: "wifi",
            preset: "wifi-good",
            changes: "upload.rate = \"20mbit\"\ndownload.rate = \"50mbit\"",
            loss: NONE,
            arq: Some((0.05, 0.000_2)),
        },
        Line {
            name: "sat",
            preset: "leo-satellite",
            changes: "download.rate = \"50mbit\"",
            loss: BURST,
            arq: None,
        },
    ]);
}

#[test]
fn roam_records_the_delay_of_each_path_as_a_trace() {
    let paths = "description = \"two delays\"\n\
         [[path]]\nname = \"near\"\nrate = \"20mbit\"\ndelay = \"10ms\"\n\
         [[path]]\nname = \"far\"\nrate = \"20mbit\"\ndelay = \"40ms\"\nloss = \"20%\"\n";
    let lab = Lab::of(paths, &[]);
    let server = lab.serve(&["--open"]);
    let options = ["--transports", "mptcp", "--duration", "6s", "--out", "roamed", "--no-report"];
    client(&lab, &server, "roam", &[&options[..], &["--record", "mine.toml"]].concat());
    let text = std::fs::read_to_string(lab.work.path().join("mine.toml")).unwrap();
    assert!(text.contains("# rate: not measured: interactive traffic does not fill the path"), "{text}");
    let checked = lab.work.run(&["lab", "check", "mine.toml"]).expect(0);
    assert!(checked.stdout.contains("good"), "{checked:#?}");
    for (index, delay_ms) in [(1, 10.0), (2, 40.0)] {
        let shown = |kind: &str, format: &str| {
            let file = format!("mine-path{index}-{kind}.csv");
            let table = std::fs::read_to_string(lab.work.path().join(&file)).unwrap();
            assert!(table.starts_with(format), "{table}");
            table
                .lines()
                .skip(1)
                .map(|line| line.split_once(',').unwrap().1.parse::<f64>().unwrap())
                .collect::<Vec<_>>()
        };
        let delays = shown("delay", "second,delay_ms\n");
        let least = delays.iter().copied().fold(f64::INFINITY, f64::min);
        assert!((delay_ms..1.2 * delay_ms).contains(&least), "{delays:?}");
        if index == 2 {
            // A fifth in each direction; the windows have about 10 probes each.
            let losses = shown("loss", "second,loss\n");
            let mean = losses.iter().sum::<f64>() / losses.len() as f64;
            assert!((0.05..0.45).contains(&mean), "{losses:?}");
        }
    }
}
