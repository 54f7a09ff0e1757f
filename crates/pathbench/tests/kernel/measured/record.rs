//! `test --record` and `roam --record` in a lab: the recorded scenario is that of the lab, as far as it can be measured.

use crate::support::measured::Measured;
use crate::support::standing::{Lab, SERVER, Server};
use crate::support::{Finished, binary, finish};
use pathbench_record::document::{DirectionFigures, LinkRecord};

/// Two of the presets. The server's default, which the machine chooses, may be a congestion control that fills no queue.
const LINES: &str = "description = \"dsl and lte\"\n\
     [[path]]\nname = \"dsl\"\npreset = \"adsl\"\n[[path]]\nname = \"lte\"\npreset = \"lte\"\n\
     [host.server.sysctl]\n\"net.ipv4.tcp_congestion_control\" = \"reno\"\n";

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

fn queue_ms(figures: &DirectionFigures) -> f64 {
    figures.queue_bytes.unwrap() as f64 * 8e3 / figures.rate_bps.unwrap() as f64
}

#[test]
fn the_recorded_lines_are_those_of_the_lab() {
    let lab = Lab::of(LINES, &[]);
    let server = lab.serve(&["--open"]);
    let options =
        ["--patterns", "ping", "--transports", "tcp", "--repeat", "1", "--out", "tested", "--no-report"];
    let record = ["--record", "recorded.toml"];
    let tested = client(&lab, &server, "test", &[&options[..], &record].concat()).expect(0);
    let text = std::fs::read_to_string(lab.work.path().join("recorded.toml")).unwrap();
    assert!(tested.stdout.contains("recorded.toml"), "{tested:#?}");
    let options = ["--transports", "tcp@dsl,tcp@lte", "--duration", "2s"];
    let (_, original) = links(&lab, "two.toml", &options);
    let (_, recorded) = links(&lab, "recorded.toml", &options);
    assert_eq!(recorded.len(), 2, "{text}");
    for (original, recorded) in original.iter().zip(&recorded) {
        assert_eq!(original.name, recorded.name);
        let (wanted, found) = (&original.requested, &recorded.requested);
        assert_eq!(wanted.mtu_bytes, found.mtu_bytes, "{text}");
        for (wanted, found) in [(&wanted.forward, &found.forward), (&wanted.reverse, &found.reverse)] {
            let close = |what: &str, wanted: f64, found: f64, tolerance: f64| {
                let ratio = found / wanted;
                assert!(
                    (ratio - 1.0).abs() <= tolerance,
                    "{} {what}: {found} of {wanted}\n{text}",
                    original.name
                );
            };
            close("rate", wanted.rate_bps.unwrap() as f64, found.rate_bps.unwrap() as f64, 0.1);
            close("delay", wanted.delay_ms.unwrap(), found.delay_ms.unwrap(), 0.1);
            // The link's jitter adds to a short queue, and the machine's lateness to it.
            close("queue", queue_ms(wanted), queue_ms(found), 0.15);
        }
        // The calibration measures the recorded link like the original.
        let (wanted, found) = (original.measured.as_ref().unwrap(), recorded.measured.as_ref().unwrap());
        for (wanted, found) in
            [(wanted.forward_bps, found.forward_bps), (wanted.reverse_bps, found.reverse_bps)]
        {
            let ratio = found.unwrap() as f64 / wanted.unwrap() as f64;
            assert!((ratio - 1.0).abs() <= 0.1, "{}: {found:?} of {wanted:?}\n{text}", original.name);
        }
    }
    // Nothing overwrites the recorded lines, and the refusal comes before the measurement.
    let again = client(&lab, &server, "test", &["--record", "recorded.toml", "--out", "again"]).expect(2);
    assert!(again.stderr.contains("recorded.toml: the file exists already"), "{again:#?}");
    assert!(!lab.work.path().join("again").exists());
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
