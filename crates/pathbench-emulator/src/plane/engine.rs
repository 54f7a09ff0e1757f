//! The thread.

use super::command::Command;
use super::{LinkReport, PlaneError, PlaneLink};
use pathbench_record::time::Clock;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Receiver;

/// Serves commands until the handle is gone.
pub(super) fn run(_clock: &dyn Clock, inbox: &Receiver<Command>, _wake: &OwnedFd) {
    let mut links: Vec<PlaneLink> = Vec::new();
    while let Ok(command) = inbox.recv() {
        let known = |link: usize, links: &[PlaneLink]| {
            if link < links.len() { Ok(()) } else { Err(PlaneError::NoSuchLink { link }) }
        };
        match command {
            Command::Add { link, reply, .. } => {
                links.push(*link);
                let _ = reply.send(Ok(links.len() - 1));
            }
            Command::Change { link, reply, .. }
            | Command::Follow { link, reply, .. }
            | Command::SetCondition { link, reply, .. }
            | Command::Restart { link, reply, .. } => {
                let _ = reply.send(known(link, &links));
            }
            Command::Report { link, reply } => {
                let _ = reply.send(known(link, &links).map(|()| LinkReport::default()));
            }
        }
    }
}
