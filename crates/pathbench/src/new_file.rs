//! Files that a command makes for its user: never in the place of another, and whole or not at all.

use crate::exit::Failure;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Creates `file` with these permissions (less the umask) and this content.
pub(crate) fn create(file: &Path, mode: u32, text: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::bad_input(format!(
            "{}: there is such a file already, and it is not overwritten; move it away or choose another name",
            file.display()
        )),
        _ => Failure::failed(format!("cannot write {}: {error}", file.display())),
    };
    let mut created =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(file).map_err(failed)?;
    created.write_all(text.as_bytes()).map_err(|error| {
        let _nothing_better = fs::remove_file(file);
        failed(error)
    })
}
