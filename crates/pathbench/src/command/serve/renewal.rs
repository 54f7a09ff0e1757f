//! The files of a server that are read again when they change, and at SIGHUP: its certificate, and its list of revoked
//! tokens.

use super::log::ServerLog;
use pathbench_program::exit::Failure;
use pathbench_program::renewal::FileWatch;
use pathbench_record::file;
use pathbench_record::time::Timestamp;
use pathbench_traffic::token::{RevokedTokens, Serial};
use pathbench_transport::{IdentityError, ServerIdentity};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) struct CertificateRenewal {
    certificate: PathBuf,
    key: PathBuf,
    watch: FileWatch,
    identity: Arc<ServerIdentity>,
}

impl CertificateRenewal {
    /// Reads the files for the first time.
    pub(super) fn open(certificate: &Path, key: &Path) -> Result<(Arc<ServerIdentity>, Self), IdentityError> {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        let watch = FileWatch::new(vec![certificate.clone(), key.clone()]);
        let identity = Arc::new(ServerIdentity::from_pem_files(&certificate, &key)?);
        let renewal = Self { certificate, key, watch, identity: Arc::clone(&identity) };
        Ok((identity, renewal))
    }

    /// Reads the files again if they have changed, or if that `is_requested`. A certificate that cannot be used is logged
    /// once, and the present one stays.
    pub(super) fn check(&mut self, is_requested: bool, now: Timestamp, log: &ServerLog) {
        if !self.watch.is_due(is_requested, now) {
            return;
        }
        match self.identity.renew(&self.certificate, &self.key) {
            Ok(true) => log.notice(&format!("new certificate, SHA-256: {}", self.identity.fingerprint())),
            Ok(false) => {
                log.notice(&format!("read again, certificate unchanged: {}", self.identity.fingerprint()));
            }
            Err(error) => log.notice(&format!("the present certificate stays in use: {error}")),
        }
    }
}

/// A token or its serial number a line; what follows `#` is a comment.
pub(super) struct RevocationFile {
    path: PathBuf,
    watch: FileWatch,
    revoked: RevokedTokens,
}

impl RevocationFile {
    /// Reads the file for the first time.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let file = Self {
            path: path.to_owned(),
            watch: FileWatch::new(vec![path.to_owned()]),
            revoked: RevokedTokens::default(),
        };
        file.revoked.replace(file.read()?);
        Ok(file)
    }

    pub(super) fn revoked(&self) -> RevokedTokens {
        self.revoked.clone()
    }

    fn read(&self) -> Result<BTreeSet<Serial>, Failure> {
        let name = self.path.display();
        let text = file::read_text_named(&self.path, file::SMALL_FILE_BYTES)
            .map_err(|error| Failure::bad_input(format!("{name}: {error}")))?;
        let lines = text.lines().zip(1..).map(|(line, number)| {
            let entry = line.split('#').next().unwrap_or_default().trim();
            (number, entry)
        });
        let serial = |(number, entry): (usize, &str)| {
            Serial::from_text(entry).ok_or_else(|| {
                Failure::bad_input(format!(
                    "{name}, line {number}: neither a token nor a serial number of 16 hexadecimal digits"
                ))
            })
        };
        lines.filter(|(_, entry)| !entry.is_empty()).map(serial).collect()
    }

    /// Reads the file again if it has changed, or if that `is_requested`. A list that cannot be read is logged once, and
    /// the present one stays.
    pub(super) fn check(&mut self, is_requested: bool, now: Timestamp, log: &ServerLog) {
        if !self.watch.is_due(is_requested, now) {
            return;
        }
        match self.read() {
            Ok(serials) => {
                log.notice(&format!("revoked tokens: {}", serials.len()));
                self.revoked.replace(serials);
            }
            Err(failure) => {
                log.notice(&format!("the present list of revoked tokens stays in use: {}", failure.message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::Mutex;

    fn time_at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_renewed_certificate_is_used_and_a_broken_one_is_logged_once() {
        let directory = tempfile::tempdir().unwrap();
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
        let write = || {
            let (chain, private) = ServerIdentity::self_signed_pem(&["localhost".to_owned()]).unwrap();
            fs::write(&certificate, chain).unwrap();
            fs::write(&key, private).unwrap();
        };
        write();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let log = ServerLog::with_sink(move |line| sink.lock().unwrap().push(line));
        let logged = || std::mem::take(&mut *lines.lock().unwrap());
        let (identity, mut renewal) = CertificateRenewal::open(&certificate, &key).unwrap();
        let first = identity.fingerprint();
        (0..20).for_each(|second| renewal.check(false, time_at(second), &log));
        assert_eq!((identity.fingerprint(), logged().len()), (first, 0));

        write();
        (20..40).for_each(|second| renewal.check(false, time_at(second), &log));
        let second = identity.fingerprint();
        assert_ne!(first, second);
        let lines = logged();
        assert!(lines.len() == 1 && lines[0].contains(&second.to_string()), "{lines:?}");

        // The key of another certificate.
        fs::write(&key, ServerIdentity::self_signed_pem(&["localhost".to_owned()]).unwrap().1).unwrap();
        (40..60).for_each(|second| renewal.check(false, time_at(second), &log));
        assert_eq!(identity.fingerprint(), second);
        let lines = logged();
        assert!(lines.len() == 1 && lines[0].contains("stays in use"), "{lines:?}");

        // SIGHUP needs no change of the files.
        write();
        renewal.check(true, time_at(60), &log);
        assert_ne!(identity.fingerprint(), second);
    }
}
