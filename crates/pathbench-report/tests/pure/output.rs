//! The files of a written report.

use crate::synthetic;
use pathbench_record::directory::{ResultDirectory, ResultWriter};
use pathbench_record::end::MessageLine;
use pathbench_report::terminal::{Style, summary};
use pathbench_report::{FigureFormat, ReportFiles, ReportWriteError, ResultSet};
use std::error::Error;
use std::fs;
use std::path::Path;

type Outcome = Result<(), Box<dyn Error>>;

fn write(sets: &[ResultSet], out: &Path) -> Result<ReportFiles, ReportWriteError> {
    pathbench_report::write(sets, out, FigureFormat::SvgAndPng)
}

fn names(written: &ReportFiles) -> Vec<String> {
    let names = written.figures.iter().filter_map(|path| path.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

#[test]
fn a_plain_result_has_two_figures() -> Outcome {
    let out = tempfile::tempdir()?;
    let written = write(&[synthetic::failover()], &out.path().join("new"))?;
    assert_eq!(names(&written), ["timeline.svg", "timeline.png", "comparison.svg", "comparison.png"]);
    assert!(fs::read_to_string(&written.html)?.contains("<svg "));
    for path in &written.figures {
        let bytes = fs::read(path)?;
        let starts: &[u8] =
            if path.extension().is_some_and(|one| one == "png") { b"\x89PNG" } else { b"<svg " };
        assert!(bytes.starts_with(starts), "{}", path.display());
    }
    Ok(())
}

#[test]
fn png_files_are_written_on_request_only() -> Outcome {
    let out = tempfile::tempdir()?;
    let written = pathbench_report::write(&[synthetic::failover()], out.path(), FigureFormat::Svg)?;
    assert_eq!(names(&written), ["timeline.svg", "comparison.svg"]);
    assert_eq!(fs::read_dir(out.path())?.count(), 3, "these and report.html");
    Ok(())
}

#[test]
fn each_pattern_has_its_figures_under_its_name() -> Outcome {
    let out = tempfile::tempdir()?;
    let written = write(&[synthetic::suite()], out.path())?;
    // Each figure is listed as SVG, then as PNG.
    let svgs: Vec<String> = names(&written).into_iter().step_by(2).collect();
    assert_eq!(
        svgs,
        [
            "overview.svg",
            "distribution-ping.svg",
            "comparison-ping.svg",
            "timeline-bulk.svg",
            "comparison-bulk.svg",
            "timeline-throughput-upload.svg",
            "comparison-throughput-upload.svg",
            "timeline-throughput-download.svg",
            "comparison-throughput-download.svg",
            "delay-interactive.svg",
            "distribution-interactive.svg",
            "comparison-interactive.svg",
        ]
    );
    let page = fs::read_to_string(&written.html)?;
    for part in [
        "Reachability",
        "test.example:4433",
        "Figures of the pattern interactive",
        "tcp, mptcp in clear text, quic, mpquic encrypted: not directly comparable",
        "TLS 1.3 TLS13_AES_128_GCM_SHA256",
        "lost its address 100.64.0.7",
    ] {
        assert!(page.contains(part), "{part} is not in the report");
    }
    Ok(())
}

#[test]
fn messages_have_a_delay_and_a_distribution() -> Outcome {
    let out = tempfile::tempdir()?;
    let names = names(&write(&[synthetic::handover()], out.path())?);
    assert_eq!(names[..4], ["delay.svg", "delay.png", "distribution.svg", "distribution.png"]);
    Ok(())
}

#[test]
fn packet_sizes_have_their_figures_and_a_matrix_has_its_own() -> Outcome {
    let out = tempfile::tempdir()?;
    let names = names(&write(&[synthetic::shrink()], out.path())?);
    assert!(
        ["mtu.svg", "packet-sizes.svg"].iter().all(|name| names.iter().any(|one| one == name)),
        "{names:?}"
    );
    assert!(!names.contains(&"matrix.svg".to_owned()), "there is one variant only");
    let page = fs::read_to_string(out.path().join("report.html"))?;
    for part in [
        "Routers, and packets that were too large",
        "Packets on the wire",
        "One MSS for all subflows",
        "<td class=\"n\">53.81</td><td class=\"n\">56.72</td>",
    ] {
        assert!(page.contains(part), "{part} is not in the report");
    }
    Ok(())
}

#[test]
fn an_examination_of_path_mtus_has_no_figures_and_no_run_to_miss() -> Outcome {
    let out = tempfile::tempdir()?;
    let written = write(&[synthetic::examined()], out.path())?;
    assert_eq!(names(&written), Vec::<String>::new());
    let page = fs::read_to_string(&written.html)?;
    assert!(page.contains("The MTU of each path to test.example") && !page.contains("No run was made"));
    let read = summary(&synthetic::examined(), Style { colour: false, width: 80 });
    assert!(read.contains("1500 up, 9000 down") && !read.contains("No run was made"), "{read}");
    Ok(())
}

#[test]
fn each_direction_has_its_timeline() -> Outcome {
    let out = tempfile::tempdir()?;
    let names = names(&write(&[synthetic::aggregate(1, true)], out.path())?);
    assert!(names.contains(&"timeline-upload.svg".to_owned()), "{names:?}");
    assert!(names.contains(&"timeline-download.png".to_owned()), "{names:?}");
    Ok(())
}

#[test]
fn several_results_do_not_overwrite_each_other() -> Outcome {
    let out = tempfile::tempdir()?;
    let sets = [synthetic::aggregate(1, false), synthetic::aggregate(2, false)];
    let written = write(&sets, out.path())?;
    let mut names = names(&written);
    assert!(names.contains(&"2-aggregate-2x10g-timeline.svg".to_owned()), "{names:?}");
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!((names.len(), all), (8, 8));
    assert!(fs::read_to_string(&written.html)?.contains("Comparison of 2 results"));
    Ok(())
}

#[test]
fn a_file_that_cannot_be_written_is_named() -> Outcome {
    let out = tempfile::tempdir()?;
    let blocked = out.path().join("blocked");
    fs::create_dir_all(blocked.join("report.html"))?;
    let error = write(&[synthetic::failover()], &blocked).expect_err("a directory of that name exists");
    assert!(error.to_string().contains("report.html"), "{error}");
    Ok(())
}

#[test]
fn a_result_directory_is_read_whole() -> Outcome {
    let out = tempfile::tempdir()?;
    let mut made = synthetic::failover();
    let directory = out.path().join("result");
    let mut writer = ResultWriter::create(&directory)?;
    writer.append(&made.lines.held.samples)?;
    writer.append(&made.lines.held.events)?;
    writer.append(&made.lines.held.deliveries)?;
    let of_first = |line: MessageLine| MessageLine { run: made.document.runs[0].id.clone(), ..line };
    made.lines.held.messages = synthetic::handover().lines.held.messages.into_iter().map(of_first).collect();
    writer.append(&made.lines.held.messages)?;
    writer.finish(&made.document)?;
    let (read, warnings) = ResultSet::read(ResultDirectory::open(&directory)?)?;
    assert_eq!(warnings, Vec::<String>::new());
    let ids = |set: &ResultSet| set.document.runs.iter().map(|run| run.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&read), ids(&made));
    for run in &made.document.runs {
        let lines = read.lines.of_run(&run.id)?;
        assert!(!lines.samples.is_empty() && lines == made.lines.of_run(&run.id)?, "{}", run.id);
    }
    assert_eq!(read.directory, Some(directory));
    Ok(())
}

/// The index does not parse lines; a page without the lines of a run would look whole.
#[test]
fn a_broken_line_stops_the_report() -> Outcome {
    let out = tempfile::tempdir()?;
    let made = synthetic::failover();
    let directory = out.path().join("result");
    let mut writer = ResultWriter::create(&directory)?;
    writer.append(&made.lines.held.samples)?;
    writer.append(&made.lines.held.events)?;
    writer.append(&made.lines.held.deliveries)?;
    writer.finish(&made.document)?;
    let file = directory.join("samples.jsonl");
    let text = fs::read_to_string(&file)?;
    let mut lines: Vec<&str> = text.lines().collect();
    let broken = lines[2].replacen("\"t_ms\":", "\"t_ms\":--", 1);
    lines[2] = &broken;
    fs::write(&file, lines.join("\n") + "\n")?;
    let (read, _) = ResultSet::read(ResultDirectory::open(&directory)?)?;
    let place = out.path().join("report");
    let error = write(std::slice::from_ref(&read), &place).expect_err("a line is broken");
    assert!(
        matches!(error, ReportWriteError::Lines(_)) && error.to_string().contains("samples.jsonl:3: "),
        "{error}"
    );
    assert!(!place.exists());
    let text = summary(&read, Style { colour: false, width: 80 });
    assert!(!text.is_empty() && read.lines.failure().is_some());
    Ok(())
}

#[test]
fn a_missing_file_is_a_warning() -> Outcome {
    let out = tempfile::tempdir()?;
    let made = synthetic::aggregate(1, false);
    let directory = out.path().join("result");
    let mut writer = ResultWriter::create(&directory)?;
    writer.append(&made.lines.held.samples)?;
    writer.append(&made.lines.held.events)?;
    writer.append(&made.lines.held.deliveries)?;
    writer.finish(&made.document)?;
    fs::remove_file(directory.join("samples.jsonl"))?;
    let (read, warnings) = ResultSet::read(ResultDirectory::open(&directory)?)?;
    assert!(warnings.len() == 1 && warnings[0].contains("samples.jsonl"), "{warnings:?}");
    let drawn = synthetic::drawn(&read, "timeline");
    assert!(drawn.is_some_and(|svg| svg.contains("bytes without samples that attribute them to a path")));
    Ok(())
}

/// A viewer that prefers dark paper gets every colour for it; the attributes stay for others.
#[test]
fn figure_files_have_their_colours_for_dark_paper() {
    for set in [
        synthetic::failover(),
        synthetic::handover(),
        synthetic::walk(),
        synthetic::probing(),
        synthetic::suite(),
    ] {
        for figure in pathbench_report::figures(&[set]).concat() {
            let text = figure.svg.to_string();
            let (_, rest) =
                text.split_once("<style>@media screen and (prefers-color-scheme:dark){").expect("a style");
            let (rules, shapes) = rest.split_once("}</style>").expect("its end");
            for attribute in ["fill", "stroke"] {
                for colour in
                    shapes.split(&format!(" {attribute}=\"#")).skip(1).filter_map(|rest| rest.get(..6))
                {
                    let rule = format!("[{attribute}=\"#{colour}\"]{{{attribute}:#");
                    assert!(rules.contains(&rule), "{}: {rule}", figure.name);
                }
            }
        }
    }
}

/// The kernel reports the smallest sizes for a route whose interface is down; nothing else changed.
#[test]
fn figures_with_nothing_to_show_are_left_out() {
    let mut set = synthetic::failover();
    for sample in set.lines.held.samples.iter_mut().filter(|one| one.path == "wlan" && one.t_ms > 3500.0) {
        (sample.figures.mss_bytes, sample.figures.pmtu_bytes) = (36, 72);
    }
    assert_eq!(synthetic::drawn(&set, "mtu"), None);
    let mut set = synthetic::shrink();
    assert!(synthetic::drawn(&set, "packet-sizes").is_some());
    for link in set.document.runs.iter_mut().flat_map(|run| &mut run.links) {
        if let Some(sizes) = &mut link.packet_sizes {
            sizes.forward.clear();
            sizes.reverse.clear();
        }
    }
    assert_eq!(synthetic::drawn(&set, "packet-sizes"), None);
}

/// Lines break between words at every width.
#[test]
fn a_narrow_terminal_has_whole_words() {
    let sets = [
        synthetic::failover(),
        synthetic::aggregate(6, false),
        synthetic::suite(),
        synthetic::walk(),
        synthetic::probing(),
    ];
    for set in &sets {
        let of = |width: usize| summary(set, Style { colour: false, width });
        let words = |text: &str| -> Vec<String> {
            let is_word = |word: &&str| word.len() > 3 && word.chars().all(char::is_alphabetic);
            text.split(|c: char| c.is_whitespace() || "()[]`,.:;".contains(c))
                .filter(is_word)
                .map(str::to_owned)
                .collect()
        };
        let wide = words(&of(200));
        for width in [40, 80, 200] {
            let text = of(width);
            let long = text.lines().find(|line| unicode_width::UnicodeWidthStr::width(*line) > width);
            assert_eq!(long, None, "{width}");
            let broken: Vec<String> = words(&text).into_iter().filter(|word| !wide.contains(word)).collect();
            assert!(width == 80 || broken.is_empty(), "{width}: {broken:?}");
        }
    }
}
