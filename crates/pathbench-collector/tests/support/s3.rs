//! An S3 server (s3proxy), for one test.

use super::within;
use pathbench_collector::raw::s3::Location;
use pathbench_kerneltest::test_tools;
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
        let jar = test_tools().join("s3proxy.jar");
        assert!(jar.is_file(), "{} is missing: run .ci/tools/install", jar.display());
        let work = TempDir::with_prefix("pathbench-s3").unwrap();
        std::fs::create_dir_all(work.path().join("data/results")).unwrap();
        // A free port; nothing else binds it between these two lines on a test machine, or the server fails to start.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let properties = format!(
            "s3proxy.endpoint=http://127.0.0.1:{port}\ns3proxy.authorization=aws-v2-or-v4\ns3proxy.identity=key\n\
             s3proxy.credential=secret\njclouds.provider=filesystem-nio2\njclouds.filesystem.basedir={}\n",
            work.path().join("data").display()
        );
        let file = work.path().join("properties");
        std::fs::write(&file, properties).unwrap();
        let log = std::fs::File::create(work.path().join("log")).unwrap();
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "java", "-Xmx256m", "-jar"])
            .arg(jar)
            .arg("--properties")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self { work, process, port };
        let answers = || TcpStream::connect(("127.0.0.1", port)).ok();
        let log = || std::fs::read_to_string(server.work.path().join("log")).unwrap_or_default();
        assert!(within(Duration::from_secs(60), answers).is_some(), "s3proxy does not start: {}", log());
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
