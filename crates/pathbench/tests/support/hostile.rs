//! Result directories that another user has prepared: symbolic links, FIFOs, devices, directories and giant files in
//! place of the files that commands read and write.

use super::{Finished, Workplace, binary, finish};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A command that reads FIFOs or `/dev/zero` is ended by `timeout` with exit code 124.
const DEADLINE_S: &str = "20";
const UNTOUCHED: &str = "untouched";
/// The files of the result that commands read.
const READ: [&str; 7] = [
    "run.json",
    "samples.jsonl",
    "events.jsonl",
    "delivery.jsonl",
    "messages.jsonl",
    "links.jsonl",
    "probes.jsonl",
];
const FORMATS: [&str; 5] = ["csv", "parquet", "markdown", "perfetto", "flent"];
const GIANT_BYTES: u64 = 10 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    Link,
    LinkToDevice,
    DanglingLink,
    Fifo,
    Directory,
    Giant,
    Unreadable,
    /// Only root makes one.
    Device,
}

impl Obstacle {
    const ALL: [Self; 8] = [
        Self::Link,
        Self::LinkToDevice,
        Self::DanglingLink,
        Self::Fifo,
        Self::Directory,
        Self::Giant,
        Self::Unreadable,
        Self::Device,
    ];

    /// Those that this user can make, and that are obstacles for this user.
    fn possible() -> impl Iterator<Item = Self> {
        let is_root = rustix::process::geteuid().is_root();
        Self::ALL.into_iter().filter(move |one| match one {
            Self::Unreadable => !is_root,
            Self::Device => is_root,
            _ => true,
        })
    }

    /// Puts itself in the place of the file.
    fn replace(self, file: &Path) {
        let moved = file.with_extension("moved");
        fs::rename(file, &moved).unwrap();
        let node = |kind, device| {
            mknodat(CWD, file, kind, Mode::from_raw_mode(0o666), device).unwrap();
        };
        match self {
            Self::Link => symlink(&moved, file).unwrap(),
            Self::LinkToDevice => symlink("/dev/zero", file).unwrap(),
            Self::DanglingLink => symlink("/no/such/file", file).unwrap(),
            Self::Fifo => node(FileType::Fifo, 0),
            Self::Directory => fs::create_dir(file).unwrap(),
            Self::Giant => fs::File::create(file).unwrap().set_len(GIANT_BYTES).unwrap(),
            Self::Unreadable => {
                fs::rename(&moved, file).unwrap();
                fs::set_permissions(file, fs::Permissions::from_mode(0o000)).unwrap();
            }
            // /dev/zero
            Self::Device => node(FileType::CharacterDevice, rustix::fs::makedev(1, 5)),
        }
    }
}

/// Results beside the directory of the commands, whose schemas are not checked.
struct Place {
    work: Workplace,
    home: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { work: Workplace::new(), home: tempfile::tempdir().unwrap() }
    }

    /// A new result.
    fn result(&self, name: &str) -> PathBuf {
        let directory = self.home.path().join(name);
        fs::create_dir(&directory).unwrap();
        let golden = pathbench_testkit::checkout().join("crates/pathbench-record/tests/golden/v1-emulated");
        for file in READ {
            fs::copy(golden.join(file), directory.join(file)).unwrap();
        }
        directory
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = Command::new("timeout");
        self.work.prepare(&mut command);
        finish(command.arg(DEADLINE_S).arg(binary()).args(arguments))
    }

    /// A file that must stay as it is.
    fn victim(&self, name: &str) -> PathBuf {
        let victim = self.home.path().join(name);
        fs::write(&victim, UNTOUCHED).unwrap();
        victim
    }
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Every name that a command writes is a symbolic link to a file of somebody else. The commands write their files, and
/// the other files stay.
pub(crate) fn links_in_place_of_written_files_are_replaced() {
    let place = Place::new();
    let (first, second) = (place.result("result-1"), place.result("result-2"));
    let export: Vec<&str> = FORMATS.iter().flat_map(|format| ["--export", format]).collect();
    place.run(&["report", text(&first)]).expect(0);
    place.run(&[&["report", text(&first)], &export[..]].concat()).expect(0);
    let names: Vec<PathBuf> = files(&first)
        .into_iter()
        .map(|file| file.strip_prefix(&first).unwrap().to_owned())
        .filter(|name| !READ.iter().any(|read| name.as_path() == Path::new(read)))
        .collect();
    assert!(names.len() > 30, "{names:?}");
    fs::create_dir(second.join("export")).unwrap();
    let victims: Vec<PathBuf> =
        (0..names.len()).map(|index| place.victim(&format!("victim-{index}"))).collect();
    for (name, victim) in names.iter().zip(&victims) {
        symlink(victim, second.join(name)).unwrap();
    }
    place.run(&["report", text(&second)]).expect(0);
    place.run(&[&["report", text(&second)], &export[..]].concat()).expect(0);
    for (name, victim) in names.iter().zip(&victims) {
        assert_eq!(fs::read_to_string(victim).unwrap(), UNTOUCHED, "{}", name.display());
        let written = second.join(name);
        assert!(fs::symlink_metadata(&written).unwrap().is_file(), "{}", name.display());
        let expected = fs::read(first.join(name)).unwrap().len();
        assert_eq!(fs::read(&written).unwrap().len(), expected, "{}", name.display());
    }
    let temporary = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(".new-");
    assert!(!files(&second).iter().any(temporary), "nothing temporary stays");
}

/// The directory of exports, and the file of `--summary`.
pub(crate) fn directories_that_are_links_are_refused() {
    let place = Place::new();
    let result = place.result("result");
    let elsewhere = place.home.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, result.join("export")).unwrap();
    for format in FORMATS {
        place.run(&["report", text(&result), "--export", format]).expect(1).reports(&["export", "link"]);
    }
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    let other = place.result("other");
    let victim = place.victim("victim");
    let summary = place.home.path().join("summary.md");
    symlink(&victim, &summary).unwrap();
    let out = place.home.path().join("page");
    let compare = [
        "report",
        "--compare",
        text(&result),
        text(&other),
        "--out",
        text(&out),
        "--summary",
        text(&summary),
    ];
    place.run(&compare).expect(0);
    assert_eq!(fs::read_to_string(&victim).unwrap(), UNTOUCHED);
    assert!(fs::read_to_string(&summary).unwrap().contains('|'), "the link was replaced by the comparison");
    // A device is written to.
    let shown = place.run(&[&compare[..7], &["/dev/stdout"]].concat()).expect(0);
    assert!(shown.stdout.contains("| "), "{shown:#?}");
}

/// A file that cannot be replaced gives one message, and the summary is printed nevertheless.
pub(crate) fn written_files_that_are_no_files_are_named() {
    let place = Place::new();
    for obstacle in [Obstacle::Fifo, Obstacle::Directory] {
        let result = place.result(&format!("{obstacle:?}"));
        fs::write(result.join("report.html"), "").unwrap();
        obstacle.replace(&result.join("report.html"));
        let finished =
            place.run(&["report", text(&result)]).expect(1).reports(&["report.html", "not a regular file"]);
        assert!(finished.stdout.contains("mptcp"), "{finished:#?}");
    }
}

/// Each file that a command reads is replaced by each obstacle. The command ends at once and names the file.
pub(crate) fn read_files_that_are_no_files_are_named() {
    let place = Place::new();
    let sound = place.result("sound");
    let out = place.home.path().join("page");
    let scenario = place.work.scenario("resumed", "[[path]]\nname = \"eth\"\nrate = \"20mbit\"\n");
    for obstacle in Obstacle::possible() {
        for name in READ {
            let result = place.result(&format!("{obstacle:?}-{name}"));
            obstacle.replace(&result.join(name));
            let check = |arguments: &[&str]| {
                let finished = place.run(arguments);
                assert!(matches!(finished.code, Some(1 | 2)), "{obstacle:?} {arguments:?}: {finished:#?}");
                assert!(finished.stderr.contains(name), "{obstacle:?} {arguments:?}: {finished:#?}");
            };
            check(&["report", text(&result)]);
            if name == "run.json" {
                check(&["report", text(&result.join(name))]);
                check(&["report", "--json", text(&result)]);
                check(&["report", "--baseline", text(&sound), text(&result), "--out", text(&out)]);
                check(&["lab", "run", &scenario, "--resume", text(&result)]);
                let collector = ["submit", "--collector", "http://127.0.0.1:9", "--consent", "private"];
                check(&[&collector[..], &[text(&result)]].concat());
            }
            if matches!(name, "run.json" | "events.jsonl") {
                check(&["report", text(&result), "--export", "csv"]);
                check(&["report", "--compare", text(&sound), text(&result), "--out", text(&out)]);
            }
        }
    }
}

/// The analysis of captures that `pathbench trace --out` wrote.
pub(crate) fn analyses_that_are_no_files_are_named() {
    let place = Place::new();
    for obstacle in Obstacle::possible() {
        let directory = place.home.path().join(format!("trace-{obstacle:?}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("trace.json"), "{}").unwrap();
        obstacle.replace(&directory.join("trace.json"));
        let finished = place.run(&["report", text(&directory)]).expect(2).reports(&["trace.json"]);
        assert!(finished.stdout.is_empty(), "{obstacle:?}: {finished:#?}");
    }
}
