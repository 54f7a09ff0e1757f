//! Keys, tokens and certificates, made before a server needs them.

use super::{places, token_key};
use crate::clock::unix_seconds;
use crate::exit::{Exit, Failure};
use crate::random;
use pathbench_traffic::token::TokenKey;
use pathbench_transport::ServerIdentity;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

/// For its owner alone.
const SECRET: u32 = 0o600;
const PUBLIC: u32 = 0o644;

pub(super) fn make_key(file: &Path) -> Result<Exit, Failure> {
    write_new(file, SECRET, &TokenKey::file_text(random::bytes()))?;
    println!("{}: a key for tokens. Whoever can read it can make tokens.", file.display());
    println!("  pathbench serve token --key {} --valid 1h", file.display());
    println!("  pathbench serve --token-key {}", file.display());
    Ok(Exit::Done)
}

pub(super) fn make_token(key: &Path, valid: Duration, name: &str) -> Result<Exit, Failure> {
    let token = token_key(key)?.mint(name, unix_seconds(), valid).map_err(Failure::bad_input)?;
    println!("{token}");
    Ok(Exit::Done)
}

pub(super) fn make_certificate(cert: &Path, key: &Path, names: &[String]) -> Result<Exit, Failure> {
    let own = [places::host_name()];
    let names = if names.is_empty() { &own[..] } else { names };
    let (certificate, private) = ServerIdentity::self_made_pem(names).map_err(Failure::bad_input)?;
    write_new(key, SECRET, &private)?;
    write_new(cert, PUBLIC, &certificate)?;
    let identity = ServerIdentity::from_pem_files(cert, key).map_err(Failure::failed)?;
    println!("{}: a certificate for {}, SHA-256", cert.display(), names.join(", "));
    println!("  {}", identity.fingerprint());
    println!("  pathbench serve --cert {} --key {}", cert.display(), key.display());
    Ok(Exit::Done)
}

/// Writes a file that is not there yet.
fn write_new(file: &Path, mode: u32, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::bad_input(format!(
            "{}: there is such a file already, and it is not overwritten; move it away or choose another name",
            file.display()
        )),
        _ => Failure::failed(format!("{}: {error}", file.display())),
    };
    let mut created =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(file).map_err(failed)?;
    created.write_all(text.as_bytes()).map_err(failed)
}
