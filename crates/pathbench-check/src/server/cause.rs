//! The cause of a lost MPTCP option: a middlebox is the last of the suspects.

/// The evidence about one failed handshake or join. `None`: not examined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Suspects {
    /// Plain TCP over the same path to the same address and port connects, while the connection is open.
    pub listens: Option<bool>,
    /// The join went to an address that the server announces, which is not the address of the connection.
    pub announced: Option<Announced>,
    /// The server rejects the join (`MPJoinRejected`).
    pub is_rejected: bool,
    /// The join arrives at a host without the connection (`MPJoinNoTokenFound`).
    pub is_unknown_token: bool,
    /// The same option passes to the same address and port over another path.
    pub passes_elsewhere: bool,
    pub hops: HopEvidence,
}

/// An announced address, examined by plain TCP over the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// An address of a private network (RFC 1918, RFC 4193), while the server's name leads to a public one.
    pub is_private: bool,
    pub connects: bool,
}

/// Probes of the hops, for an option that is lost before the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HopEvidence {
    #[default]
    Unknown,
    /// Every router up to the last one receives the option intact.
    IntactAtLastRouter,
    /// A router receives the SYN without the option, or does not receive it.
    LostBeforeServer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultCause {
    /// The server's listener is closed while the connection is open.
    ClosedListener,
    PrivateAnnouncement,
    UnreachableAnnouncement,
    ServerLimit,
    /// Another host answers for the server: a load balancer.
    OtherHost,
    /// The server's own firewall, or the last router before it.
    Server,
    /// A middlebox of the path.
    Path,
    /// The server's firewall, a balancer or a middlebox.
    ServerOrPath,
}

impl Suspects {
    pub fn cause(&self) -> FaultCause {
        match (self.announced, self.listens) {
            (Some(Announced { connects: false, is_private: true }), _) => {
                return FaultCause::PrivateAnnouncement;
            }
            (Some(Announced { connects: false, .. }), _) => return FaultCause::UnreachableAnnouncement,
            (None, Some(false)) => return FaultCause::ClosedListener,
            _ => {}
        }
        if self.is_rejected {
            return FaultCause::ServerLimit;
        }
        if self.is_unknown_token {
            return FaultCause::OtherHost;
        }
        let is_reached = self.announced.is_some() || self.listens == Some(true);
        match self.hops {
            HopEvidence::LostBeforeServer if is_reached => FaultCause::Path,
            _ if is_reached && self.passes_elsewhere => FaultCause::Path,
            HopEvidence::IntactAtLastRouter => FaultCause::Server,
            _ => FaultCause::ServerOrPath,
        }
    }
}

pub(super) const CLOSED_LISTENER_REMEDY: &str =
    "in the server's program: close the listening socket only when its last connection has ended";
