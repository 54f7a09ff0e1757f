//! The source of a submission: what tells the people apart whose results a figure is made of.

use pathbench_api::digest::Digest;
use pathbench_api::token::Token;
use pathbench_record::network::Client;

/// The token of a submission, or the network that it comes from: an IPv4 /24 or an IPv6 /48, as in the anonymous form.
/// A client can invent agents, and neither of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source(pub u64);

impl Source {
    /// `token` is that of an agent; others have one token for many.
    pub fn new(token: Option<&Token>, client: Client) -> Self {
        let bytes = token.map_or_else(
            || {
                let digest = Digest::compute(client.network().to_string().as_bytes()).0;
                std::array::from_fn(|index| digest[index])
            },
            |token| token.serial.0,
        );
        Self(u64::from_le_bytes(bytes))
    }
}
