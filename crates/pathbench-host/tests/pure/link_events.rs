//! Link changes from the kernel's notifications.

use pathbench_host::link_events::LinkObserver;
use pathbench_host::netlink::message::Encoder;
use pathbench_record::kernel_event::{LinkChange, LinkEvent};
use proptest::prelude::*;

const UP: u32 = (libc::IFF_UP | libc::IFF_LOWER_UP) as u32;

fn notice(flags: u32, mtu: u32) -> Vec<u8> {
    let header = [0, 7, flags, 0].map(u32::to_ne_bytes);
    Encoder::with_header(header.as_flattened())
        .text(libc::IFLA_IFNAME, "eth")
        .u32(libc::IFLA_MTU, mtu)
        .into_bytes()
}

fn changes(observer: &mut LinkObserver, kind: u16, payload: &[u8]) -> Vec<LinkChange> {
    observer.observe(kind, payload).into_iter().map(|event| event.change).collect()
}

#[test]
fn notifications_become_changes() {
    let mut observer = LinkObserver::default();
    let new = libc::RTM_NEWLINK;
    let down = notice(0, 1500);
    let up = notice(UP, 1500);
    assert_eq!(changes(&mut observer, new, &down), [LinkChange::Appeared]);
    assert_eq!(changes(&mut observer, new, &up), [LinkChange::Up, LinkChange::CarrierUp]);
    assert_eq!(changes(&mut observer, new, &up), []);
    let smaller = notice(UP, 1400);
    assert_eq!(changes(&mut observer, new, &smaller), [LinkChange::Mtu(1400)]);
    let gone = observer.observe(libc::RTM_DELLINK, &smaller);
    assert_eq!(gone, [LinkEvent { index: 7, name: Some("eth".to_owned()), change: LinkChange::Disappeared }]);
    assert_eq!(changes(&mut observer, new, &down), [LinkChange::Appeared]);
}

proptest! {
    #[test]
    fn any_bytes(kind in 16u16..24, payload: Vec<u8>) {
        let mut observer = LinkObserver::default();
        observer.observe(kind, &payload);
        observer.observe(kind, &payload);
    }
}
