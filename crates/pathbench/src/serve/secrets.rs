//! Keys, tokens and certificates, made before a server needs them.

use super::{places, token_key};
use crate::clock::unix_seconds;
use crate::exit::{Exit, Failure};
use crate::{new_file, output, random};
use pathbench_traffic::token::TokenKey;
use pathbench_transport::ServerIdentity;
use std::path::Path;
use std::time::Duration;

/// For its owner alone.
const SECRET: u32 = 0o600;
const PUBLIC: u32 = 0o644;

pub(super) fn make_key(file: &Path) -> Result<Exit, Failure> {
    new_file::create(file, SECRET, &TokenKey::file_text(random::bytes()))?;
    let file = file.display();
    output::print(&format!(
        "{file}: a key for tokens. Whoever can read it can make tokens.\n  \
         pathbench serve token --key {file} --valid 1h\n  pathbench serve --token-key {file}\n"
    ))?;
    Ok(Exit::Done)
}

pub(super) fn make_token(key: &Path, valid: Duration, name: &str) -> Result<Exit, Failure> {
    let token = token_key(key)?.mint(name, unix_seconds(), valid).map_err(Failure::bad_input)?;
    output::print(&format!("{token}\n"))?;
    Ok(Exit::Done)
}

pub(super) fn make_certificate(cert: &Path, key: &Path, names: &[String]) -> Result<Exit, Failure> {
    let own = [places::host_name()];
    let names = if names.is_empty() { &own[..] } else { names };
    let (certificate, private) = ServerIdentity::self_made_pem(names).map_err(Failure::bad_input)?;
    new_file::create(key, SECRET, &private)?;
    new_file::create(cert, PUBLIC, &certificate)?;
    let identity = ServerIdentity::from_pem_files(cert, key).map_err(Failure::failed)?;
    let (cert, key) = (cert.display(), key.display());
    output::print(&format!(
        "{cert}: a certificate for {}, SHA-256\n  {}\n  pathbench serve --cert {cert} --key {key}\n",
        names.join(", "),
        identity.fingerprint()
    ))?;
    Ok(Exit::Done)
}
