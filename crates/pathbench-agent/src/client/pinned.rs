//! TLS to a collector whose certificate is pinned by its fingerprint, irrespective of its name, CA and dates.

use pathbench_transport::{CertificateFingerprint, Trust, client_config};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::fmt;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use ureq::Agent;
use ureq::config::Config;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectProxyConnector, ConnectionDetails, Connector, LazyBuffers, NextTimeout, TcpConnector,
    Transport, TransportAdapter,
};

/// HTTP requests that accept only the certificate with this fingerprint.
pub(super) fn agent(configuration: Config, fingerprint: CertificateFingerprint) -> Result<Agent, String> {
    let mut tls =
        client_config(&Trust::Fingerprint(fingerprint), b"http/1.1").map_err(|error| error.to_string())?;
    // A collector or its proxy may choose no protocol.
    tls.alpn_protocols.clear();
    let connector =
        ().chain(ConnectProxyConnector::default())
            .chain(TcpConnector::default())
            .chain(PinnedConnector { tls: Arc::new(tls) });
    Ok(Agent::with_parts(configuration, connector, DefaultResolver::default()))
}

#[derive(Debug)]
struct PinnedConnector {
    tls: Arc<ClientConfig>,
}

impl<In: Transport> Connector<In> for PinnedConnector {
    type Out = PinnedTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained.filter(|_| details.needs_tls()) else {
            return Err(ureq::Error::Tls("a pinned certificate needs https"));
        };
        let host = details.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|_| ureq::Error::Tls("invalid name of a host"))?;
        let mut conn = ClientConnection::new(Arc::clone(&self.tls), name)?;
        let mut sock = TransportAdapter::new(transport.boxed(), Arc::clone(&details.current_time));
        sock.set_timeout(details.timeout);
        conn.complete_io(&mut sock)?;
        let stream = StreamOwned { conn, sock };
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(PinnedTransport { buffers: LazyBuffers::new(input, output), stream }))
    }
}

struct PinnedTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for PinnedTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedTransport").finish_non_exhaustive()
    }
}

impl Transport for PinnedTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        self.stream.write_all(self.buffers.output().get(..amount).unwrap_or_default())?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
