//! tshark with its default preferences.

use pathbench_testkit::program;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A capture in a temporary file.
pub(crate) struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _absent = fs::remove_file(&self.0);
    }
}

impl File {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("pathbench-tshark-{}-{number}.pcap", std::process::id()));
        fs::write(&path, bytes).unwrap();
        Self(path)
    }

    /// The values of fields in the packets that a display filter selects, a line each.
    pub(crate) fn fields(&self, filter: &str, fields: &[&str]) -> Vec<String> {
        let mut command = Command::new(program("tshark"));
        // A directory without preferences of the user.
        command.env("HOME", std::env::temp_dir()).env("XDG_CONFIG_HOME", "/nonexistent");
        command.args(["-n", "-r"]).arg(&self.0).args(["-Y", filter, "-T", "fields"]);
        for field in fields {
            command.args(["-e", field]);
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{filter}: {errors}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// Numbers of the frames that a display filter selects.
    pub(crate) fn frames(&self, filter: &str) -> Vec<u64> {
        self.fields(filter, &["frame.number"]).iter().map(|number| number.parse().unwrap()).collect()
    }
}
