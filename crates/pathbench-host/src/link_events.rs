//! Changes of interfaces and addresses, from the kernel's notifications.

use crate::namespace::NetNamespace;
use crate::netlink::channel::{MulticastListener, MulticastMessage, NetlinkProtocol};
use crate::netlink::{InterfaceAddress, NetlinkError, NetworkInterface, RouteSocket};
use pathbench_record::kernel_event::{LinkChange, LinkEvent};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};

const REQUEST: &str = "receive link events";

/// Derives changes from the kernel's notifications, each of which describes the current state of an interface.
#[derive(Debug, Default)]
pub struct LinkObserver {
    known: HashMap<u32, NetworkInterface>,
}

impl LinkObserver {
    /// The changes in a notification of this type (`RTM_*`).
    pub fn observe(&mut self, kind: u16, payload: &[u8]) -> Vec<LinkEvent> {
        match kind {
            libc::RTM_NEWLINK | libc::RTM_DELLINK => {
                // Bridges send notifications about their ports (AF_BRIDGE) that do not describe the interface.
                if payload.first().is_none_or(|family| i32::from(*family) != libc::AF_UNSPEC) {
                    return Vec::new();
                }
                let Some(link) = NetworkInterface::parse(payload) else { return Vec::new() };
                if kind == libc::RTM_DELLINK { self.gone(link) } else { self.seen(link) }
            }
            libc::RTM_NEWADDR | libc::RTM_DELADDR => {
                let Some(address) = InterfaceAddress::parse(payload) else { return Vec::new() };
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

    fn gone(&mut self, link: NetworkInterface) -> Vec<LinkEvent> {
        self.known.remove(&link.index);
        vec![LinkEvent { index: link.index, name: Some(link.name), change: LinkChange::Disappeared }]
    }

    fn seen(&mut self, link: NetworkInterface) -> Vec<LinkEvent> {
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

/// The changes of interfaces and addresses of one network namespace since the subscription.
#[derive(Debug)]
pub struct LinkEventStream {
    listener: MulticastListener,
    observer: LinkObserver,
}

impl LinkEventStream {
    /// Subscribes to the changes in the calling thread's network namespace.
    /// Requires no privilege.
    pub fn subscribe() -> Result<Self, NetlinkError> {
        let groups = [libc::RTNLGRP_LINK, libc::RTNLGRP_IPV4_IFADDR, libc::RTNLGRP_IPV6_IFADDR];
        // Subscribe before listing, to miss no change: a notification of an already listed link state yields no event.
        let listener =
            MulticastListener::subscribe(NetlinkProtocol::ROUTE, &groups, "subscribe to link events")?;
        let links = RouteSocket::open()?.links()?;
        let known = links.into_iter().map(|link| (link.index, link)).collect();
        Ok(Self { listener, observer: LinkObserver { known } })
    }

    pub fn subscribe_in(namespace: &NetNamespace) -> Result<Self, NetlinkError> {
        namespace.run_in(Self::subscribe)?
    }

    /// All changes since the last call, without waiting.
    pub fn receive(&mut self) -> Result<Vec<LinkEvent>, NetlinkError> {
        let (mut events, observer) = (Vec::new(), &mut self.observer);
        self.listener.drain(REQUEST, |notice| match notice {
            MulticastMessage::Message(kind, payload) => events.extend(observer.observe(kind, payload)),
            MulticastMessage::Overrun => {
                events.push(LinkEvent { index: 0, name: None, change: LinkChange::Overrun });
            }
        })?;
        for event in &events {
            tracing::info!(?event, "link event");
        }
        Ok(events)
    }
}

impl AsFd for LinkEventStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
