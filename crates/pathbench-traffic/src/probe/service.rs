//! The responder at a server's UDP port.

use super::ProbeResponder;
use crate::path_mtu;
use crate::server::Access;
use crate::stream::lock;
use pathbench_record::time::Clock;
use pathbench_transport::DatagramService;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

/// Answers probes beside QUIC.
pub(crate) struct ProbeService {
    responder: Mutex<ProbeResponder>,
    clock: Arc<dyn Clock>,
}

impl ProbeService {
    pub(crate) fn new(access: Access, most_clients: usize, clock: &Arc<dyn Clock>) -> Self {
        let responder = Mutex::new(ProbeResponder::new(access, most_clients, clock.now()));
        Self { responder, clock: Arc::clone(clock) }
    }

    /// Lets nobody in any more.
    pub(crate) fn drain(&self) {
        lock(&self.responder).drain();
    }
}

impl fmt::Debug for ProbeService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProbeService").finish_non_exhaustive()
    }
}

impl DatagramService for ProbeService {
    fn takes(&self, datagram: &[u8]) -> bool {
        ProbeResponder::takes(datagram)
    }

    fn answer(&self, from: SocketAddr, local: Option<IpAddr>, datagram: &[u8]) -> Option<Vec<u8>> {
        let answer = lock(&self.responder).answer(self.clock.now(), from, datagram)?;
        Some(ProbeResponder::with_belief(answer, || path_mtu::believed_mtu(from, local)))
    }

    fn unsent(
        &self,
        from: SocketAddr,
        local: Option<IpAddr>,
        answer: &[u8],
        error: &io::Error,
    ) -> Option<Vec<u8>> {
        if error.raw_os_error() != Some(libc::EMSGSIZE) {
            return None;
        }
        ProbeResponder::too_long(answer, path_mtu::interface_limit(from, local, answer.len()))
    }
}
