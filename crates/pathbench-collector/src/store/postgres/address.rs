//! The server's URL.

use super::tls::Tls;
use crate::store::StoreError;
use std::net::IpAddr;
use std::path::Path;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// Where the server is, and how to reach it.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) tls: Option<Tls>,
    /// Host and database, without the password.
    pub(super) location: String,
}

const SYNTAX: &str = "not a valid URL: \
                      postgres://USER:PASSWORD@HOST/DATABASE[?sslmode=require[&sslrootcert=FILE]]";

impl Address {
    /// Beside what tokio-postgres accepts: `sslrootcert=FILE`, and `sslmode=verify-full` for `require`.
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut kept, mut roots, mut mode) = (Vec::new(), None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslrootcert", file)) => roots = Some(file),
                Some(("sslmode", name)) => mode = Some(name),
                _ => kept.push(pair.to_owned()),
            }
        }
        let mode = match mode {
            Some("verify-full") => Some("require"),
            mode => mode,
        };
        kept.extend(mode.map(|mode| format!("sslmode={mode}")));
        let separator = if kept.is_empty() { "" } else { "?" };
        // The parser's message can hold parts of the URL, and so the password.
        let parsed = format!("{base}{separator}{}", kept.join("&")).parse::<Config>();
        let mut config = parsed.map_err(|_| failed("PostgreSQL", SYNTAX))?;
        let addresses = config.get_hostaddrs();
        if addresses.is_empty() && config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_))) {
            // As libpq does.
            config.ssl_mode(SslMode::Disable);
        }
        let location = location(&config);
        let tls = match config.get_ssl_mode() {
            SslMode::Require => {
                Some(Tls::new(roots.map(Path::new)).map_err(|problem| failed(&location, &problem))?)
            }
            // Also without `sslmode`.
            SslMode::Prefer if is_remote(&config) => {
                let problem =
                    "add sslmode=require to the URL, or sslmode=disable for a connection without encryption";
                return Err(failed(&location, problem));
            }
            _ => None,
        };
        Ok(Self { config, tls, location })
    }
}

fn failed(location: &str, problem: &str) -> StoreError {
    StoreError::Failed { location: location.to_owned(), problem: problem.to_owned() }
}

/// A `hostaddr` is what is connected to; the host beside it is a name for TLS.
fn is_remote(config: &Config) -> bool {
    let is_remote_host = |host: &Host| match host {
        Host::Tcp(name) if name == "localhost" => false,
        Host::Tcp(name) => !name.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
        Host::Unix(_) => false,
    };
    match config.get_hostaddrs() {
        [] => config.get_hosts().iter().any(is_remote_host),
        addresses => !addresses.iter().all(IpAddr::is_loopback),
    }
}

fn location(config: &Config) -> String {
    let host = |host: &Host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    };
    let hosts: Vec<String> = config.get_hosts().iter().map(host).collect();
    format!("PostgreSQL {}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
}
