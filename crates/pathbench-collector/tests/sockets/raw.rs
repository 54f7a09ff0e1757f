//! The behaviour of the raw store in a directory, and the URL of one in S3.

use crate::support::raw_suite::behaves;
use crate::support::{MovedClock, random, s3};
use pathbench_collector::raw::directory::{Directory, SEALED_AFTER, SEALED_BYTES};
use pathbench_collector::raw::s3::{Location, S3UrlError};
use pathbench_collector::raw::{RawMaintenance as _, RawStore as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn directory(path: &Path) -> Directory {
    Directory::open(path, Arc::new(MovedClock::default()), random).unwrap()
}

#[test]
fn a_directory_behaves() {
    let work = tempfile::tempdir().unwrap();
    let stored = || {
        let mut bytes = Vec::new();
        for entry in std::fs::read_dir(work.path()).unwrap() {
            bytes.extend(std::fs::read(entry.unwrap().path()).unwrap());
        }
        bytes
    };
    behaves(&|| Arc::new(directory(work.path())), &stored);
    let path = work.path().join("private");
    directory(&path).append(&[b"x"]).unwrap();
    let segment = std::fs::read_dir(&path).unwrap().next().unwrap().unwrap().path();
    for (path, expected) in [(&path, 0o700), (&segment, 0o600)] {
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, expected);
    }
}

#[test]
fn an_s3_url_names_its_parts() {
    let error = |url: &str| Location::parse(url, s3::credentials).unwrap_err();
    for url in ["http://b", "s3://", "s3://b?x=1", "s3://b/a b", "s3://b?endpoint"] {
        assert_eq!(error(url), S3UrlError::Syntax(url.to_owned()), "{url}");
    }
    assert!(matches!(error("s3://b?endpoint=ftp://h"), S3UrlError::Endpoint(_)));
    let missing = Location::parse("s3://b", |_| None).unwrap_err();
    assert_eq!(missing, S3UrlError::Credentials("AWS_ACCESS_KEY_ID"));
    let location = Location::parse("s3://b/p?region=eu-west-1", s3::credentials).unwrap();
    assert_eq!(format!("{location:?}"), "Location(\"s3://b/p (https://s3.eu-west-1.amazonaws.com)\")");
}

#[test]
fn a_segment_is_sealed_by_size_and_age() {
    let work = tempfile::tempdir().unwrap();
    let clock = Arc::new(MovedClock::default());
    let store = Directory::open(work.path(), clock.clone(), random).unwrap();
    let large = vec![1; (SEALED_BYTES / 2) as usize];
    let append = |bytes: &[u8]| store.append(&[bytes]).unwrap().remove(0);
    let (a, b, c) = (append(&large), append(&large), append(b"c"));
    assert_eq!(a.segment, b.segment);
    assert_ne!(b.segment, c.segment);
    assert_eq!(append(b"d").segment, c.segment);
    clock.advance(SEALED_AFTER);
    assert_ne!(append(b"e").segment, c.segment);
    clock.advance(2 * SEALED_AFTER + Duration::from_secs(1));
    let unsealed = |store: &Directory| {
        let sealed = store.sealed_before_ms();
        store.segments().unwrap().into_iter().filter(|segment| segment.made_ms >= sealed).count()
    };
    // The newest one receives no more appends either, but nothing says so yet.
    assert_eq!((store.segments().unwrap().len(), unsealed(&store)), (3, 1));
    assert_eq!(unsealed(&Directory::open(work.path(), clock, random).unwrap()), 0);
}

#[test]
fn a_torn_tail_harms_nothing() {
    let work = tempfile::tempdir().unwrap();
    let range = directory(work.path()).append(&[b"whole"]).unwrap().remove(0);
    let file = work.path().join(format!("{}.segment", range.segment));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend(b"to");
    std::fs::write(&file, bytes).unwrap();
    std::fs::write(work.path().join("other file"), "x").unwrap();
    let store = directory(work.path());
    let next = store.append(&[b"next"]).unwrap().remove(0);
    assert_eq!(store.read(&range).unwrap(), b"whole");
    assert_eq!(store.read(&next).unwrap(), b"next");
    assert_eq!(store.segments().unwrap().len(), 2);
}
