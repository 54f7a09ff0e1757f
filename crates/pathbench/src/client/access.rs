//! How a server is got at, as clap reads it.

use clap::Args;
use pathbench_record::document::AddressFamily;
use pathbench_transport::CertificateFingerprint;
use std::path::PathBuf;

/// Where else the server is, what it is known by, and what it knows the client by.
#[derive(Debug, Clone, Args)]
pub(crate) struct AccessArgs {
    /// A further UDP port to try QUIC on (repeatable)
    #[arg(long = "quic-port", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) quic_ports: Vec<u16>,
    /// SHA-256 of the server's certificate, as `pathbench serve` prints it [default: the public's authorities]
    #[arg(long, value_name = "HEX", conflicts_with = "ca")]
    pub(crate) fingerprint: Option<CertificateFingerprint>,
    /// PEM file with the authority that signed the server's certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// What the server's operator gave you, where the server asks for it
    #[arg(long, value_name = "T", env = "PATHBENCH_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Encrypt tcp and mptcp as well (quic and mpquic always are)
    #[arg(long)]
    pub(crate) tls: bool,
}

impl AccessArgs {
    /// What is wrong with it.
    pub(crate) fn mistake(&self) -> Option<String> {
        let file = self.ca.as_ref()?;
        let error = std::fs::read(file).err()?;
        Some(format!("--ca {}: {error}", file.display()))
    }

    /// What to give where the server's certificate is to be believed by something else than the public's authorities.
    pub(crate) fn hint(&self) -> Option<String> {
        let given = self.fingerprint.is_some() || self.ca.is_some();
        (!given).then(|| {
            "without --fingerprint or --ca, the server's certificate must be by an authority that the public trusts"
                .to_owned()
        })
    }
}

/// By which family of addresses.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FamilyArgs {
    /// Use IPv4 only
    #[arg(short = '4', long = "ipv4", conflicts_with = "ipv6_only")]
    ipv4_only: bool,
    /// Use IPv6 only
    #[arg(short = '6', long = "ipv6")]
    ipv6_only: bool,
}

impl FamilyArgs {
    /// The one asked for; both when absent.
    pub(crate) const fn only(self) -> Option<AddressFamily> {
        match (self.ipv4_only, self.ipv6_only) {
            (true, _) => Some(AddressFamily::Ipv4),
            (_, true) => Some(AddressFamily::Ipv6),
            _ => None,
        }
    }
}
