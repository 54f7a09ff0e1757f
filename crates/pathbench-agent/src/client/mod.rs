//! The client side of a collector: consent, submissions made from result directories, the outbox, and requests over HTTP.
//! Nothing here leaves the host without the owner's consent.

mod address;
mod archive;
mod backoff;
mod collector;
mod consent;
mod delivery;
mod networks;
mod outbox;
mod pinned;
pub(crate) mod renewal;
mod settings;
mod submission;

pub use address::CollectorAddress;
pub(crate) use backoff::Backoff;
pub use collector::{CollectorClient, CollectorError};
pub(crate) use consent::{load_decision, require_consent};
pub(crate) use delivery::{Delivered, deliver};
pub(crate) use networks::network_kinds;
pub(crate) use outbox::Outbox;
pub use outbox::state_directory;
pub(crate) use settings::{Settings, SettingsFile};
pub(crate) use submission::{Material, submission};

use clap::Args;
use pathbench_api::consent::Consent;
use pathbench_program::exit::Failure;
use pathbench_transport::CertificateFingerprint;
use std::path::PathBuf;

/// The credential and the CA of a collector.
#[derive(Debug, Clone, Default, Args)]
pub struct CollectorArgs {
    /// Token from the collector's operator, where the collector requires one
    #[arg(long, value_name = "T", env = "PATHBENCH_COLLECTOR_TOKEN", hide_env_values = true)]
    pub collector_token: Option<String>,
    /// PEM file with the CA that signed the collector's certificate [default: the public CAs]
    #[arg(long, value_name = "FILE")]
    pub collector_ca: Option<PathBuf>,
    /// SHA-256 of the collector's certificate, which then needs no CA, no name and no valid dates
    #[arg(long, value_name = "SHA256", conflicts_with = "collector_ca")]
    pub collector_fingerprint: Option<CertificateFingerprint>,
}

impl CollectorArgs {
    pub fn collector(&self, address: &CollectorAddress) -> Result<CollectorClient, Failure> {
        let (token, ca) = (self.collector_token.clone(), self.collector_ca.as_deref());
        let collector = CollectorClient::new(address.clone(), token, ca)?;
        match self.collector_fingerprint {
            Some(fingerprint) => collector.pinned(fingerprint),
            None => Ok(collector),
        }
    }
}

/// The owner's consent and where it is kept.
#[derive(Debug, Clone, Default, Args)]
pub struct ConsentArgs {
    /// Readers of results: none (they stay on this host), private (the collector's operator) or public (everybody, in
    /// the anonymous form) [default: the decision in the configuration file; without one the command asks]
    #[arg(long, value_name = "LEVEL", value_parser = consent_parser())]
    pub consent: Option<Consent>,
    /// File with consent, identity and limits [default: pathbench/collector.toml in `$XDG_CONFIG_HOME`, of root in /etc]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

pub fn consent_parser() -> impl clap::builder::TypedValueParser<Value = Consent> {
    use clap::builder::{PossibleValuesParser, TypedValueParser as _};
    PossibleValuesParser::new(Consent::ALL.map(Consent::name)).try_map(|name| name.parse::<Consent>())
}
