//! Options and subcommands.

use clap::{ArgAction, Args, Parser, Subcommand};
use pathbench_api::Uuid;
use pathbench_api::name::Name;
use pathbench_record::units::Span;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

const EXIT_CODES: &str =
    "Exit codes: 0 done; 1 failed; 2 usage or bad input; 7 this host lacks a feature or privilege.";

/// Store the results of many hosts, and serve charts of them over HTTP
#[derive(Debug, Parser)]
#[command(
    name = "pathbench collect",
    bin_name = "pathbench collect",
    version,
    after_help = EXIT_CODES,
    max_term_width = 110,
    args_conflicts_with_subcommands = true
)]
pub struct Cli {
    #[command(flatten)]
    pub storage: StorageArgs,
    #[command(flatten)]
    pub serve: ServeArgs,
    #[command(subcommand)]
    pub action: Option<Action>,
}

/// Where the collector keeps its data; the same for all subcommands.
#[derive(Debug, Clone, Args)]
pub struct StorageArgs {
    /// Directory of the database, the raw parts and the secret key [default: /var/lib/pathbench-collector for root,
    /// else pathbench/collector in `$XDG_DATA_HOME` or ~/.local/share]
    #[arg(long, global = true, value_name = "DIR", env = "PATHBENCH_COLLECTOR_DIR")]
    pub dir: Option<PathBuf>,
    /// PostgreSQL database, e.g. `postgres://user@host/name` [default: SQLite in the directory]
    #[arg(long, global = true, value_name = "URL", env = "PATHBENCH_DATABASE", hide_env_values = true)]
    pub database: Option<String>,
    /// S3-compatible store of the raw parts, e.g. `s3://bucket/prefix?endpoint=https://HOST&region=R`; the credentials are
    /// in `$AWS_ACCESS_KEY_ID` and `$AWS_SECRET_ACCESS_KEY` [default: files in the directory]
    #[arg(long, global = true, value_name = "URL", env = "PATHBENCH_RAW_STORE")]
    pub raw: Option<String>,
    /// File with the secret key, which collectors of one database share [default: secret.key in the directory]
    #[arg(long, global = true, value_name = "FILE")]
    pub secret: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8380")]
    pub listen: SocketAddr,
    /// Accept connections also on the listening socket that is standard input, as a parent passes it
    #[arg(long)]
    pub listen_stdin: bool,
    /// Let everybody submit results, within the limits [default: agents with a token]
    #[arg(long, action = ArgAction::SetTrue)]
    pub open: bool,
    /// PEM file with the certificate chain; without it the collector serves plain HTTP, for use behind a proxy
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// PEM file with the certificate's private key
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Name of the operator in GET /v1/privacy
    #[arg(long, value_name = "TEXT", value_parser = operator_name)]
    pub operator: Option<String>,
    /// Delete results this long after their arrival, e.g. 365d [default: never]
    #[arg(long, value_name = "TIME")]
    pub retention: Option<Span>,
    /// Requests per second of one client (an IPv4 address, an IPv6 /64), four times as many at once; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub rate_limit: u32,
    /// Connections at the same time
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(8..=60_000))]
    pub max_connections: u32,
    /// Connections of one client at the same time
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub max_connections_per_client: u32,
    /// Memory for the bodies of requests, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(32..=65_536))]
    pub body_memory: u32,
    /// Memory for answers that clients have not read yet and for reports, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(32..=65_536))]
    pub answer_memory: u32,
    /// Memory for the figures of results, in MiB; beyond it the oldest results are left out of charts and lists
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(16..=65_536))]
    pub column_memory: u32,
    /// Results that the database holds; more are refused
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    pub max_results: u64,
    /// Results of one client in a day; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub client_results: u64,
    /// Stored MiB of one client in a day; 0 for no limit
    #[arg(long, value_name = "MIB", default_value_t = 4_096)]
    pub client_storage: u64,
    /// New agents of one client in a day; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub client_agents: u64,
    /// Disk that only deletions may use, in MiB; as much must be free beside it for new results. 0 for none
    #[arg(long, value_name = "MIB", default_value_t = 128)]
    pub disk_reserve: u64,
    /// Address of a proxy that names the client in X-Forwarded-For (repeatable)
    #[arg(long, value_name = "ADDR")]
    pub trusted_proxy: Vec<IpAddr>,
}

fn operator_name(text: &str) -> Result<String, String> {
    let bad = text.len() > 256 || text.chars().any(pathbench_record::text::is_deceptive);
    if bad {
        Err("a name has at most 256 bytes and no control characters".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

#[derive(Debug, Clone, Subcommand)]
pub enum Action {
    /// Make a token for an agent, for submissions or for the operator, which is printed on stdout; or revoke one
    Token(TokenArgs),
    /// Replace the secret key, from which all tokens and the keys of test servers are derived
    RotateKey {
        /// How long tokens and keys of the earlier secret stay valid
        #[arg(long, value_name = "TIME", default_value = "90d")]
        keep: Span,
    },
    /// Test servers
    #[command(subcommand)]
    Server(ServerAction),
    /// Experiments, which agents run
    #[command(subcommand)]
    Experiment(ExperimentAction),
    /// List the agents that checked in
    Agents,
    /// Delete a result
    Delete {
        #[arg(value_name = "ID")]
        id: Uuid,
    },
    /// Copy database, raw parts and secret key to a new directory, while the collector runs
    Backup {
        #[arg(value_name = "DIR")]
        to: PathBuf,
    },
    /// Fill the collector's directory, which must be empty, from a backup
    Restore {
        #[arg(value_name = "DIR")]
        from: PathBuf,
    },
    /// Check the database, and that the raw part of every result is there
    Check {
        /// Read every raw part and compare its SHA-256
        #[arg(long)]
        digests: bool,
    },
    /// Write the summaries as Parquet files by date, for DuckDB, Spark and ClickHouse
    Export {
        /// Directory; it gets a subdirectory date=YYYY-MM-DD for each day, in place of those of an earlier export
        #[arg(value_name = "DIR")]
        to: PathBuf,
        /// All results as submitted [default: public results in the anonymous form]
        #[arg(long)]
        all: bool,
    },
    /// Start a collector, two test servers and three agents in a lab on this machine, until Ctrl-C
    Demo(DemoArgs),
    /// Print the OpenAPI description of the HTTP API
    Openapi,
}

#[derive(Debug, Clone, Args)]
pub struct TokenArgs {
    /// Make a token of the operator, which can read and change everything
    #[arg(long, conflicts_with_all = ["submit", "revoke"])]
    pub admin: bool,
    /// Make a token for submissions only
    #[arg(long, conflicts_with = "revoke")]
    pub submit: bool,
    /// Revoke a token and its renewals: the token, or its serial number, as `agents` prints it
    #[arg(long, value_name = "TOKEN")]
    pub revoke: Option<String>,
    /// Validity, at most 90d; agents renew their token when half of it is over
    #[arg(long, value_name = "TIME", default_value = "30d")]
    pub valid: Span,
    /// Name of the agent; otherwise a name for your records
    #[arg(long, value_name = "NAME", required_unless_present_any = ["admin", "submit", "revoke"])]
    pub name: Option<Name>,
}

#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// Address and port of the dashboard
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8380")]
    pub listen: SocketAddr,
    /// End after this time [default: with Ctrl-C]
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
}

#[derive(Debug, Clone, Subcommand)]
pub enum ServerAction {
    /// Register a test server and write its key for `pathbench serve --token-key`
    Add {
        name: Name,
        /// HOST:PORT for agents [default: the address of its reports]
        #[arg(long, value_name = "HOST:PORT")]
        address: Option<String>,
        /// New file for the key [default: standard output]
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// List the servers and their load
    List,
    /// Remove a server: agents no longer get it
    Remove { name: Name },
}

#[derive(Debug, Clone, Subcommand)]
pub enum ExperimentAction {
    /// Add or replace an experiment from a TOML file
    Put {
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// List the experiments
    List,
    /// Remove an experiment: agents no longer run it
    Remove { name: Name },
}
