//! Files in directories that another user can write to.

use pathbench_record::delivery::DeliveryLine;
use pathbench_record::direction::Direction;
use pathbench_record::directory::{ResultDirectory, ResultWriter};
use pathbench_record::document::{ResultDocument, RunRecord, StudyRecord};
use pathbench_record::file::{self, OpenDirectory, Replacement};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

const UNTOUCHED: &str = "untouched";

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
}

fn count(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

#[test]
fn a_link_is_replaced_and_not_followed() {
    let home = tempfile::tempdir().unwrap();
    let (victim, link) = (home.path().join("victim"), home.path().join("link"));
    fs::write(&victim, UNTOUCHED).unwrap();
    symlink(&victim, &link).unwrap();
    file::replace(&link, b"new").unwrap();
    assert_eq!(fs::read_to_string(&link).unwrap(), "new");
    assert!(!link.is_symlink());
    fs::remove_file(&link).unwrap();
    symlink(&victim, &link).unwrap();
    file::create_anew(&link, 0o600).unwrap().write_all(b"new").unwrap();
    assert!(!link.is_symlink());
    fs::remove_file(&link).unwrap();
    symlink(&victim, &link).unwrap();
    for refused in [
        file::append(&link, 0o600),
        file::append_existing(&link),
        file::append_named(&link, 0o600),
        file::open_for_update(&link),
        file::open_own(&link, Some(0o600)),
        file::create_new(&link, 0o600),
        file::open(&link),
    ] {
        refused.unwrap_err();
    }
    assert_eq!(file::read_text_named(&link, 100).unwrap(), UNTOUCHED);
    let second = home.path().join("second");
    fs::hard_link(&victim, &second).unwrap();
    assert!(file::append(&second, 0o600).unwrap_err().to_string().contains("hard links"));
    assert_eq!(fs::read_to_string(&victim).unwrap(), UNTOUCHED);
}

#[test]
fn a_replacement_without_a_commit_leaves_the_earlier_file() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    fs::write(&path, UNTOUCHED).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let replacement = Replacement::new(&path).unwrap();
    replacement.file().write_all(b"half").unwrap();
    assert_eq!(count(home.path()), 2);
    drop(replacement);
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), count(home.path())), (UNTOUCHED, 1));
    file::replace(&path, b"new").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640, "the permissions stay");
    let error = Replacement::new(&path).unwrap().commit_new().unwrap_err();
    assert_eq!((error.kind(), count(home.path())), (ErrorKind::AlreadyExists, 1));
}

#[test]
fn a_file_that_is_none_is_neither_replaced_nor_opened() {
    let home = tempfile::tempdir().unwrap();
    let (pipe, directory) = (home.path().join("pipe"), home.path().join("directory"));
    fifo(&pipe);
    fs::create_dir(&directory).unwrap();
    for (path, what) in [(&pipe, "a FIFO"), (&directory, "a directory"), (&"/dev/null".into(), "a device")] {
        let errors = [
            file::open(path).err(),
            file::append(path, 0o600).err(),
            file::open_for_update(path).err(),
            Replacement::new(path).err(),
        ];
        for error in errors {
            let error = error.unwrap().to_string();
            assert!(error.contains(what), "{}: {error}", path.display());
        }
    }
    // A FIFO that the user names is empty without a writer.
    assert_eq!(file::read_named(&pipe, 100).unwrap(), b"");
    assert!(file::write_named(&pipe, b"text").is_err(), "nobody reads it");
    file::write_named(Path::new("/dev/null"), b"text").unwrap();
    assert_eq!(
        file::write_named(Path::new("/dev/full"), b"text").unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    assert_eq!(count(home.path()), 2, "nothing temporary stays");
}

#[test]
fn a_file_beyond_its_bound_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("file");
    fs::File::create(&path).unwrap().set_len(10 << 30).unwrap();
    let error = file::read(&path, 1 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    assert!(error.to_string().contains("1048576 bytes"), "{error}");
    fs::write(&path, "12345").unwrap();
    assert_eq!(file::read(&path, 5).unwrap(), b"12345");
    assert!(file::read(&path, 4).is_err());
    // Neither has a length.
    assert!(file::read("/proc/self/status", 1 << 20).unwrap().len() > 100);
    assert_eq!(file::read_named("/dev/zero", 1 << 20).unwrap_err().kind(), ErrorKind::FileTooLarge);
}

#[test]
fn a_subdirectory_is_no_link_and_a_name_no_path() {
    let home = tempfile::tempdir().unwrap();
    let (elsewhere, result) = (home.path().join("elsewhere"), home.path().join("result"));
    fs::create_dir(&elsewhere).unwrap();
    let result = OpenDirectory::create(&result).unwrap();
    symlink(&elsewhere, result.path().join("export")).unwrap();
    assert_eq!(result.subdirectory("export").unwrap_err().kind(), ErrorKind::NotADirectory);
    for name in ["../file", "/tmp/file", "a/b", "..", ".", ""] {
        assert!(result.write(name, b"text").is_err(), "{name:?}");
        assert!(result.subdirectory(name).is_err(), "{name:?}");
    }
    assert_eq!((count(&elsewhere), count(home.path())), (0, 2));
    let sub = result.subdirectory("sub").unwrap();
    // The directory stays the same one when another takes its name.
    fs::rename(sub.path(), home.path().join("moved")).unwrap();
    symlink(&elsewhere, sub.path()).unwrap();
    sub.write("file", b"text").unwrap();
    assert_eq!((count(&elsewhere), count(&home.path().join("moved"))), (0, 1));
}

/// An unfinished study.
fn unfinished(dir: &Path) {
    let mut writer = ResultWriter::create(dir).unwrap();
    writer
        .begin_runs(&ResultDocument { study: Some(StudyRecord::default()), ..ResultDocument::default() })
        .unwrap();
    writer.append_run(&RunRecord { id: "01-tcp-r1".to_owned(), ..RunRecord::default() }).unwrap();
}

#[test]
fn a_resumed_study_follows_no_link() {
    let home = tempfile::tempdir().unwrap();
    let sound = home.path().join("sound");
    unfinished(&sound);
    let names: Vec<_> = fs::read_dir(&sound).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        let dir = home.path().join("linked");
        unfinished(&dir);
        let (link, victim) = (dir.join(&name), home.path().join("victim"));
        fs::rename(&link, &victim).unwrap();
        let content = fs::read(&victim).unwrap();
        symlink(&victim, &link).unwrap();
        let error = ResultWriter::resume(&dir, |_| true).unwrap_err().to_string();
        assert!(error.contains(name.to_str().unwrap()) && error.contains("symbolic link"), "{error}");
        assert_eq!(fs::read(&victim).unwrap(), content, "{name:?}");
        fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn a_result_is_read_from_regular_files_only() {
    let home = tempfile::tempdir().unwrap();
    let (document, lines_file) = (home.path().join("run.json"), home.path().join("delivery.jsonl"));
    let mut writer = ResultWriter::create(home.path()).unwrap();
    let (run, direction) = ("01-tcp-r1".to_owned(), Direction::Upload);
    writer.append(&[DeliveryLine { run, direction, t_ms: 1.0, bytes: 1 }]).unwrap();
    writer.finish(&ResultDocument::default()).unwrap();
    let sound = fs::read(&lines_file).unwrap();
    let lines = || ResultDirectory::open(home.path()).unwrap().index().unwrap_err().to_string();
    fs::remove_file(&lines_file).unwrap();
    fifo(&lines_file);
    assert!(lines().contains("delivery.jsonl: it is a FIFO"), "{}", lines());
    fs::remove_file(&lines_file).unwrap();
    symlink("/dev/zero", &lines_file).unwrap();
    assert!(lines().contains("delivery.jsonl: it is a symbolic link"), "{}", lines());
    fs::remove_file(&lines_file).unwrap();
    fs::write(&lines_file, sound).unwrap();
    let opened = || ResultDirectory::open(home.path()).unwrap_err().to_string();
    fs::OpenOptions::new().write(true).open(&document).unwrap().set_len(10 << 30).unwrap();
    assert!(opened().contains("run.json: it has more than 268435456 bytes"), "{}", opened());
    fs::remove_file(&document).unwrap();
    fifo(&document);
    assert!(opened().contains("run.json: it is a FIFO"), "{}", opened());
}
