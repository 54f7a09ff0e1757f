//! Changes of interfaces and addresses, from the kernel's notifications.

use crate::namespace::NetNamespace;
use crate::netlink::channel::{Listener, Notice, Protocol};
use crate::netlink::{Link, NetlinkError, RouteSocket, parse_address, parse_link};
use pathbench_record::kernel_event::{LinkChange, LinkEvent};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};

const REQUEST: &str = "receive link events";

/// Turns the kernel's notifications, each of which describes an interface as it is now, into changes.
#[derive(Debug, Default)]
struct Observer {
    known: HashMap<u32, Link>,
}

impl Observer {
    fn observe(&mut self, kind: u16, payload: &[u8]) -> Vec<LinkEvent> {
        match kind {
            libc::RTM_NEWLINK | libc::RTM_DELLINK => {
                // Bridges send notices about their ports (AF_BRIDGE) that do not describe the interface.
                if payload.first().is_none_or(|family| i32::from(*family) != libc::AF_UNSPEC) {
                    return Vec::new();
                }
                let Some(link) = parse_link(payload) else { return Vec::new() };
                if kind == libc::RTM_DELLINK { self.gone(link) } else { self.seen(link) }
            }
            libc::RTM_NEWADDR | libc::RTM_DELADDR => {
                let Some(address) = parse_address(payload) else { return Vec::new() };
                let added = kind == libc::RTM_NEWADDR;
                let change = if added { LinkChange::AddressAdded } else { LinkChange::AddressRemoved }(
                    address.network,
                );
                let name = self.known.get(&address.index).map(|link| link.name.clone());
                vec![LinkEvent { index: address.index, name, change }]
            }
            _ => Vec::new(),
        }
    }

    fn gone(&mut self, link: Link) -> Vec<LinkEvent> {
        self.known.remove(&link.index);
        vec![LinkEvent { index: link.index, name: Some(link.name), change: LinkChange::Disappeared }]
    }

    fn seen(&mut self, link: Link) -> Vec<LinkEvent> {
        let before = self.known.get(&link.index);
        let mut changes = Vec::new();
        if before.is_none() {
            changes.push(LinkChange::Appeared);
        }
        let was_up = before.is_some_and(|before| before.up);
        if link.up != was_up {
            changes.push(if link.up { LinkChange::Up } else { LinkChange::Down });
        }
        let had_carrier = before.is_some_and(|before| before.carrier);
        if link.carrier != had_carrier {
            changes.push(if link.carrier { LinkChange::CarrierUp } else { LinkChange::CarrierDown });
        }
        if before.is_some_and(|before| before.mtu != link.mtu) {
            changes.push(LinkChange::Mtu(link.mtu));
        }
        let (index, name) = (link.index, link.name.clone());
        self.known.insert(index, link);
        changes.into_iter().map(|change| LinkEvent { index, name: Some(name.clone()), change }).collect()
    }
}

/// The changes of the interfaces and addresses of one network namespace, from the moment of subscription on.
#[derive(Debug)]
pub struct LinkEventStream {
    listener: Listener,
    observer: Observer,
}

impl LinkEventStream {
    /// Subscribes to the changes in the calling thread's network namespace.
    /// Errors: it needs no privilege.
    pub fn subscribe() -> Result<Self, NetlinkError> {
        let groups = [libc::RTNLGRP_LINK, libc::RTNLGRP_IPV4_IFADDR, libc::RTNLGRP_IPV6_IFADDR];
        // Before listing, so that no change falls between; one that is in both changes nothing.
        let listener = Listener::subscribe(Protocol::ROUTE, &groups, "subscribe to link events")?;
        let links = RouteSocket::open()?.links()?;
        let known = links.into_iter().map(|link| (link.index, link)).collect();
        Ok(Self { listener, observer: Observer { known } })
    }

    /// Subscribes to the changes in `namespace`.
    pub fn subscribe_in(namespace: &NetNamespace) -> Result<Self, NetlinkError> {
        namespace.run_in(Self::subscribe)?
    }

    /// Everything that has changed since the last call, without waiting.
    pub fn receive(&mut self) -> Result<Vec<LinkEvent>, NetlinkError> {
        let (mut events, observer) = (Vec::new(), &mut self.observer);
        self.listener.drain(REQUEST, |notice| match notice {
            Notice::Message(kind, payload) => events.extend(observer.observe(kind, payload)),
            Notice::Overrun => events.push(LinkEvent { index: 0, name: None, change: LinkChange::Overrun }),
        })?;
        Ok(events)
    }
}

impl AsFd for LinkEventStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::message::Encoder;
    use proptest::prelude::*;

    const UP: u32 = (libc::IFF_UP | libc::IFF_LOWER_UP) as u32;

    fn notice(flags: u32, mtu: u32) -> Vec<u8> {
        let header = [0, 7, flags, 0].map(u32::to_ne_bytes);
        Encoder::after(header.as_flattened())
            .text(libc::IFLA_IFNAME, "eth")
            .u32(libc::IFLA_MTU, mtu)
            .into_bytes()
    }

    fn changes(observer: &mut Observer, kind: u16, payload: &[u8]) -> Vec<LinkChange> {
        observer.observe(kind, payload).into_iter().map(|event| event.change).collect()
    }

    #[test]
    fn notifications_become_changes() {
        let mut observer = Observer::default();
        let new = libc::RTM_NEWLINK;
        let down = notice(0, 1500);
        let up = notice(UP, 1500);
        assert_eq!(changes(&mut observer, new, &down), [LinkChange::Appeared]);
        assert_eq!(changes(&mut observer, new, &up), [LinkChange::Up, LinkChange::CarrierUp]);
        assert_eq!(changes(&mut observer, new, &up), []);
        let smaller = notice(UP, 1400);
        assert_eq!(changes(&mut observer, new, &smaller), [LinkChange::Mtu(1400)]);
        let gone = observer.observe(libc::RTM_DELLINK, &smaller);
        assert_eq!(
            gone,
            [LinkEvent { index: 7, name: Some("eth".to_owned()), change: LinkChange::Disappeared }]
        );
        assert_eq!(changes(&mut observer, new, &down), [LinkChange::Appeared]);
    }

    proptest! {
        #[test]
        fn any_bytes(kind in 16u16..24, payload: Vec<u8>) {
            let mut observer = Observer::default();
            observer.observe(kind, &payload);
            observer.observe(kind, &payload);
        }
    }
}
