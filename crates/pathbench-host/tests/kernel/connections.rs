//! Connections that outlive their programs.

use crate::fixture::{Host, Lab, v4, v6, wait_until};
use libtest_mimic::Failed;
use pathbench_host::connections::abort_all;
use pathbench_testkit::{TrialOutcome, ensure, tests};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::Duration;

tests!(an_orphan_on_a_dead_link_is_aborted, a_running_program_gets_an_error_for_its_connection);

/// A connection over path 0, from the client to the server.
fn connect(lab: &Lab, address: fn(u8, u8) -> IpAddr) -> Result<(TcpStream, TcpStream), Failed> {
    let listener = lab.server.namespace.run_in(|| TcpListener::bind((address(0, 2), 0)))??;
    let to = listener.local_addr()?;
    let client = lab.client.namespace.run_in(|| TcpStream::connect(to))??;
    Ok((client, listener.accept()?.0))
}

/// Number of TCP sockets in a namespace, without TIME-WAIT sockets.
fn sockets(host: &Host) -> Result<u64, Failed> {
    let files = ["/proc/thread-self/net/sockstat", "/proc/thread-self/net/sockstat6"];
    let texts = host.namespace.run_in(|| files.map(std::fs::read_to_string))?;
    let mut found = 0;
    for text in texts {
        for line in text?.lines() {
            if let Some(rest) = line.strip_prefix("TCP: inuse ").or_else(|| line.strip_prefix("TCP6: inuse "))
            {
                found += rest.split(' ').next().unwrap_or_default().parse::<u64>()?;
            }
        }
    }
    Ok(found)
}

fn an_orphan_on_a_dead_link_is_aborted() -> TrialOutcome {
    for address in [v4, v6] {
        let mut lab = Lab::new(&[None])?;
        ensure!(sockets(&lab.client)? == 0, "there are sockets already");
        let (mut client, server) = connect(&lab, address)?;
        let port = lab.port(0, 2)?;
        lab.fabric.socket.set_down(port)?;
        client.write_all(b"never acknowledged")?;
        drop(client);
        drop(server);
        ensure!(sockets(&lab.client)? == 1, "the orphan went by itself: {}", sockets(&lab.client)?);
        ensure!(abort_all(&lab.client.namespace)? == 1, "the orphan was not found");
        let gone = wait_until(Duration::from_secs(1), || Ok(sockets(&lab.client)? == 0))?;
        ensure!(gone, "{} sockets are left", sockets(&lab.client)?);
        ensure!(abort_all(&lab.client.namespace)? == 0, "it was there twice");
    }
    Ok(())
}

fn a_running_program_gets_an_error_for_its_connection() -> TrialOutcome {
    let lab = Lab::new(&[None])?;
    let (mut client, _server) = connect(&lab, v4)?;
    ensure!(abort_all(&lab.client.namespace)? == 1, "the connection was not found");
    let error = client.read(&mut [0]).err().map(|error| error.kind());
    ensure!(error == Some(ErrorKind::ConnectionAborted), "{error:?}");
    Ok(())
}
