//! The renewal of a server's certificate: its files are read again when they change, and at SIGHUP.

use super::log::ServerLog;
use pathbench_program::renewal::FileWatch;
use pathbench_record::time::Timestamp;
use pathbench_transport::{IdentityError, ServerIdentity};
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
