//! `pathbench serve` as clap reads it.

use clap::{Args, Subcommand};
use pathbench_record::units::{Rate, Size};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Where to serve, whom, and how much.
#[derive(Debug, Clone, Args)]
#[command(subcommand_negates_reqs = true, args_conflicts_with_subcommands = true)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    pub(super) command: Option<ServeCommand>,
    /// Address to listen on (repeatable) [default: all addresses, IPv4 and IPv6]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(super) listen: Vec<IpAddr>,
    /// Port, TCP and UDP; 0 for one that is free
    #[arg(long, value_name = "N", default_value_t = 4433)]
    pub(super) port: u16,
    /// A further UDP port for QUIC (repeatable)
    #[arg(long = "quic-port", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) quic_ports: Vec<u16>,
    /// PEM file with the server's certificate chain [default: a fresh self-made certificate]
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(super) cert: Option<PathBuf>,
    /// PEM file with the certificate's private key
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(super) key: Option<PathBuf>,
    /// Serve whoever has a token signed with the key in this file (see `pathbench serve key` and `token`)
    #[arg(long, value_name = "FILE", conflicts_with = "open")]
    pub(super) token_key: Option<PathBuf>,
    /// Serve everybody, within the limits
    #[arg(long)]
    pub(super) open: bool,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
    /// Answer GET /health over HTTP here, for a load balancer or a monitor; a loopback address is best
    #[arg(long, value_name = "ADDR:PORT")]
    pub(super) health: Option<SocketAddr>,
    /// Name clients' addresses in the log, which otherwise has none
    #[arg(long)]
    pub(super) log_clients: bool,
    /// Say on stdout where it listens, and log on stderr, in JSON, a document a line
    #[arg(long)]
    pub(super) json: bool,
    /// Log nothing
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// What a client may ask for. What exceeds it is refused, and the client told what is allowed.
#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_field_names, reason = "the flags are called so")]
pub(crate) struct LimitArgs {
    /// Tests at the same time; a client that comes too many is told when to come back
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) max_tests: u16,
    /// Tests of one client (an IPv4 address, an IPv6 /64) at the same time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) max_tests_per_client: u16,
    /// Payload of one test in each direction
    #[arg(long, value_name = "SIZE", default_value = "50GB")]
    pub(super) max_bytes: Size,
    /// Duration of one test, warm-up included
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) max_seconds: u32,
    /// Rate of all tests of one client in each direction, at least 1mbit: the server paces what it sends and takes
    /// [default: as fast as it goes]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(super) max_rate: Option<Rate>,
    /// Connections at the same time, of one client a quarter of them; every stream of a test is one
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(8..))]
    pub(super) max_connections: u16,
}

/// What a server needs beforehand.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ServeCommand {
    /// Make a key for tokens; keep the file secret
    Key {
        /// Where it goes; an existing file is not overwritten
        file: PathBuf,
    },
    /// Make a token, for a client to give with --token; it is printed on stdout
    Token {
        /// The server's key for tokens
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// How long it is valid, e.g. 90s, 30m, 1h, 7d
        #[arg(long, value_name = "TIME", default_value = "1h", value_parser = validity)]
        valid: Duration,
        /// A name in it, for your own eyes
        #[arg(long, value_name = "NAME", default_value = "client")]
        name: String,
    },
    /// Make a self-signed certificate and its key, so that the fingerprint stays the same from start to start
    Certificate {
        /// Where the certificate goes; an existing file is not overwritten
        #[arg(long, value_name = "FILE")]
        cert: PathBuf,
        /// Where the private key goes; an existing file is not overwritten
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// DNS names and addresses of the server [default: this host's name]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
}

fn address(text: &str) -> Result<IpAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().map_err(|_| {
        format!("`{text}` is not an IP address; give one of this host's (`ip address` shows them), and the port with --port")
    })
}

fn rate(text: &str) -> Result<Rate, String> {
    match text.parse::<Rate>() {
        Ok(rate) if rate.0 < 1_000_000 => Err(format!("{text} is less than the 1mbit it takes at least")),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.to_string()),
    }
}

fn validity(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: give a whole number with s, m, h or d, as in 1h");
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text.strip_suffix(unit).and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validities_have_a_unit() {
        assert_eq!(validity("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(validity("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(validity("7d"), Ok(Duration::from_secs(604_800)));
        for wrong in ["", "7", "h", "-1h", "1.5h", "99999999999999999999d", "1w", "1ü"] {
            assert!(validity(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_may_have_the_brackets_of_urls() {
        assert_eq!(address("[::1]"), address("::1"));
        assert!(address("localhost").is_err());
        assert!(address("[::1").is_err());
    }
}
