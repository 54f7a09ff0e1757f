//! The behaviour of both raw stores, and what only one of them has.
use crate::support::{MovedClock, random, s3};
use pathbench_collector::raw::directory::{Directory, SEALED_AFTER, SEALED_BYTES};
use pathbench_collector::raw::s3::{Location, S3, S3UrlError};
use pathbench_collector::raw::{RawError, RawMaintenance, RawStore};
use pathbench_collector::store::RawPlace;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn directory(path: &Path) -> Directory {
    Directory::open(path, Arc::new(MovedClock::default()), random).unwrap()
}

/// Incompressible, and different for every number.
fn part(number: u8, bytes: usize) -> Vec<u8> {
    let mut state = u32::from(number) + 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8 | 1
    };
    (0..bytes).map(|_| next()).collect()
}

fn contains(all: &[u8], part: &[u8]) -> bool {
    all.windows(part.len()).any(|window| window == part)
}

/// `stored` reads all that the store has written.
fn behaves(open: &dyn Fn() -> Arc<dyn RawMaintenance>, stored: &dyn Fn() -> Vec<u8>) {
    let store = open();
    assert_eq!(store.append(&[]).unwrap(), []);
    assert_eq!(store.segments().unwrap(), []);
    store.check().unwrap();
    let parts: Vec<Vec<u8>> = [20_000, 1, 0, 300_000, 4_096, 7]
        .into_iter()
        .zip(0..)
        .map(|(bytes, number)| part(number, bytes))
        .collect();
    let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let first = store.append(&slices).unwrap();
    let second = store.append(&slices[..2]).unwrap();
    for (place, part) in first.iter().chain(&second).zip(parts.iter().chain(&parts)) {
        assert_eq!(&store.read(place).unwrap(), part);
        assert_eq!(&open().read(place).unwrap(), part);
    }
    // Places that a damaged database could name.
    let wrong = |change: &dyn Fn(&mut RawPlace)| {
        let mut place = first[3].clone();
        change(&mut place);
        store.read(&place).unwrap_err()
    };
    assert!(matches!(wrong(&|place| "../passwd".clone_into(&mut place.segment)), RawError::Missing { .. }));
    let other = "019abcdef0007000800000000000000a";
    assert!(matches!(wrong(&|place| other.clone_into(&mut place.segment)), RawError::Missing { .. }));
    assert!(matches!(wrong(&|place| place.offset += 1), RawError::Damaged { .. }));
    wrong(&|place| place.offset = u64::MAX - 5);
    wrong(&|place| place.bytes = 1 << 20);

    let segments = store.segments().unwrap();
    let names: BTreeSet<&str> = segments.iter().map(|segment| segment.name.as_str()).collect();
    let used: BTreeSet<&str> = first.iter().chain(&second).map(|place| place.segment.as_str()).collect();
    assert_eq!(names, used);
    let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
    assert_eq!(bytes, parts.iter().chain(&parts[..2]).map(|part| part.len() as u64).sum::<u64>());
    assert!(segments.iter().all(|segment| segment.made_ms > store.sealed_before_ms()));
    let mut copy = Vec::new();
    store.copy(&first[0].segment, &mut copy).unwrap();
    assert!(copy.starts_with(&parts.concat()));

    assert!(contains(&stored(), &parts[3]));
    store.erase(&[first[3].clone(), first[0].clone(), second[0].clone()]).unwrap();
    assert!(!contains(&stored(), &parts[3][..64]));
    assert!(!contains(&stored(), &parts[0][..64]));
    assert!(matches!(store.read(&first[3]).unwrap_err(), RawError::Damaged { .. }));
    for number in [1, 2, 4, 5] {
        assert_eq!(store.read(&first[number]).unwrap(), parts[number]);
    }
    // Erased twice, and after the removal of the segment.
    store.erase(&first[3..4]).unwrap();
    for segment in &segments {
        store.remove(&segment.name).unwrap();
        store.remove(&segment.name).unwrap();
    }
    store.erase(&first).unwrap();
    assert_eq!(store.segments().unwrap(), []);
    assert!(!contains(&stored(), &parts[4]));
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
fn a_bucket_behaves() {
    let mut server = s3::Server::start();
    let open = |prefix: &str| S3::new(server.location(prefix), Arc::new(MovedClock::default()), random);
    behaves(&|| Arc::new(open("some/prefix")), &|| server.stored());
    // More objects than a page of the list.
    let many = open("many");
    for number in 0..1_050_u32 {
        many.append(&[&number.to_be_bytes()]).unwrap();
    }
    assert_eq!(many.segments().unwrap().len(), 1_050);
    assert_eq!(open("some/prefix").segments().unwrap(), []);

    let wrong_secret =
        |name: &str| if name.contains("SECRET") { Some("x".to_owned()) } else { s3::credentials(name) };
    let location = Location::parse(&server.url("results"), wrong_secret).unwrap();
    let refused = S3::new(location, Arc::new(MovedClock::default()), random).check().unwrap_err();
    assert!(refused.to_string().contains("the server answers 403"), "{refused}");
    let location = Location::parse(&server.url("no-such-bucket"), s3::credentials).unwrap();
    let refused = S3::new(location, Arc::new(MovedClock::default()), random).append(&[b"x"]).unwrap_err();
    assert!(refused.to_string().contains("404 NoSuchBucket"), "{refused}");
    server.stop();
    let failed = many.append(&[b"x"]).unwrap_err();
    assert!(matches!(failed, RawError::Failed { .. }), "{failed}");
    assert!(!failed.to_string().contains("Signature"), "{failed}");
}

/// Forwards connections to `port`, and runs `task` before the first PUT.
fn before_a_put(port: u16, task: impl FnOnce() + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own_port = listener.local_addr().unwrap().port();
    let task = Arc::new(Mutex::new(Some(task)));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, task) = (client.unwrap(), task.clone());
            let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut answers, &mut back);
                let _ = back.shutdown(Shutdown::Both);
            });
            std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while let Some(read) = client.read(&mut buffer).ok().filter(|read| *read > 0) {
                    if buffer.starts_with(b"PUT ")
                        && let Some(task) = task.lock().unwrap().take()
                    {
                        task();
                    }
                    if server.write_all(&buffer[..read]).is_err() {
                        break;
                    }
                }
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
    own_port
}

#[test]
fn an_erasure_in_a_bucket_brings_no_erased_part_back() {
    let server = s3::Server::start();
    let open = |location| S3::new(location, Arc::new(MovedClock::default()), random);
    let parts = [part(1, 5_000), part(2, 5_000), part(3, 5_000)];
    let other = open(server.location("shared"));
    let places = other.append(&[&parts[0], &parts[1], &parts[2]]).unwrap();
    let of_other = places[1].clone();
    let port = before_a_put(server.port, move || other.erase(&[of_other]).unwrap());
    let url = format!("s3://results/shared?endpoint=http://127.0.0.1:{port}");
    let one = open(Location::parse(&url, s3::credentials).unwrap());
    one.erase(&places[..1]).unwrap();
    let stored = server.stored();
    assert!(!contains(&stored, &parts[0][..64]) && !contains(&stored, &parts[1][..64]));
    assert_eq!(one.read(&places[2]).unwrap(), parts[2]);
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
    let place = directory(work.path()).append(&[b"whole"]).unwrap().remove(0);
    let file = work.path().join(format!("{}.segment", place.segment));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend(b"to");
    std::fs::write(&file, bytes).unwrap();
    std::fs::write(work.path().join("other file"), "x").unwrap();
    let store = directory(work.path());
    let next = store.append(&[b"next"]).unwrap().remove(0);
    assert_eq!(store.read(&place).unwrap(), b"whole");
    assert_eq!(store.read(&next).unwrap(), b"next");
    assert_eq!(store.segments().unwrap().len(), 2);
}
