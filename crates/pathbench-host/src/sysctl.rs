//! Kernel settings under `/proc/sys`. Settings under `net.` belong to the calling thread's network namespace.

use pathbench_record::file;
use std::io::{Error, ErrorKind};
use std::path::PathBuf;

/// A setting could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    #[error("{key:?} is not the name of a kernel setting such as net.ipv4.tcp_mtu_probing")]
    InvalidKey { key: String },
    #[error("this kernel has no setting {key}: it is misspelt, or the kernel is too old or built without it")]
    NoSuchKey { key: String },
    #[error(
        "not allowed to {action} {key}: it needs root, or belongs to the whole machine and cannot be changed in a lab"
    )]
    NoPermission { key: String, action: &'static str },
    #[error("the kernel rejects {value:?} for {key}: {source}")]
    InvalidValue { key: String, value: String, source: Error },
    #[error("cannot {action} {key}: {source}")]
    Io { key: String, action: &'static str, source: Error },
}

/// The value of a setting, without the final newline. `key` has dots (`net.ipv4.tcp_mtu_probing`) or slashes.
pub fn read(key: &str) -> Result<String, SysctlError> {
    match file::read_text(path(key)?, file::SMALL_FILE_BYTES) {
        Ok(text) => Ok(text.trim_end_matches('\n').to_owned()),
        Err(source) => Err(sysctl_error(key, "read", source)),
    }
}

/// Sets a setting. `key` has dots or slashes.
#[expect(clippy::disallowed_methods, reason = "a setting is no file that can be created or replaced")]
pub fn write(key: &str, value: &str) -> Result<(), SysctlError> {
    let path = path(key)?;
    // Not `fs::write`: it would create a file if /proc/sys were an ordinary directory.
    let write = || {
        let mut file = std::fs::OpenOptions::new().write(true).open(&path)?;
        std::io::Write::write_all(&mut file, value.as_bytes())
    };
    write().map_err(|source| match source.raw_os_error() {
        Some(libc::EINVAL | libc::ERANGE | libc::ENOENT) if path.exists() => {
            SysctlError::InvalidValue { key: key.to_owned(), value: value.to_owned(), source }
        }
        _ => sysctl_error(key, "set", source),
    })
}

fn sysctl_error(key: &str, action: &'static str, source: Error) -> SysctlError {
    let key = key.to_owned();
    match source.kind() {
        ErrorKind::NotFound => SysctlError::NoSuchKey { key },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            SysctlError::NoPermission { key, action }
        }
        _ => SysctlError::Io { key, action, source },
    }
}

/// The file of a setting; a key with slashes keeps its dots, as in sysctl(8).
pub fn path(key: &str) -> Result<PathBuf, SysctlError> {
    let separator = if key.contains('/') { '/' } else { '.' };
    let mut path = PathBuf::from("/proc/sys");
    for part in key.split(separator) {
        let plain = !part.is_empty()
            && !matches!(part, "." | "..")
            && part.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
        if !plain {
            return Err(SysctlError::InvalidKey { key: key.to_owned() });
        }
        path.push(part);
    }
    Ok(path)
}
