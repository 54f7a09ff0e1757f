//! An S3 server (.ci/tools/s3-server), for one test.

use super::within;
use pathbench_collector::raw::s3::Location;
use pathbench_testkit::program;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) struct Server {
    work: TempDir,
    process: Child,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start() -> Self {
        let work = TempDir::with_prefix("pathbench-s3").unwrap();
        let data = work.path().join("data");
        std::fs::create_dir_all(data.join("results")).unwrap();
        // A free port; nothing else binds it between these two lines on a test machine, or the server fails to start.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = std::fs::File::create(work.path().join("log")).unwrap();
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(program("pathbench-s3-server"))
            .arg(data)
            .args([&port.to_string(), "key", "secret"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self { work, process, port };
        let answers = || TcpStream::connect(("127.0.0.1", port)).ok();
        let log = || std::fs::read_to_string(server.work.path().join("log")).unwrap_or_default();
        assert!(
            within(Duration::from_secs(60), answers).is_some(),
            "pathbench-s3-server does not start: {}",
            log()
        );
        server
    }

    pub(crate) fn url(&self, bucket_and_prefix: &str) -> String {
        format!("s3://{bucket_and_prefix}?endpoint=http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn location(&self, prefix: &str) -> Location {
        Location::parse(&self.url(&format!("results/{prefix}")), credentials).unwrap()
    }

    /// All bytes that the server stores.
    pub(crate) fn stored(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut directories = vec![self.work.path().join("data")];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    bytes.extend(std::fs::read(path).unwrap());
                }
            }
        }
        bytes
    }

    pub(crate) fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

pub(crate) fn credentials(name: &str) -> Option<String> {
    match name {
        "AWS_ACCESS_KEY_ID" => Some("key".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("secret".to_owned()),
        _ => None,
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
