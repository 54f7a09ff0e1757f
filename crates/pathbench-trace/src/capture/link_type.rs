//! The link types of captures.

use std::borrow::Cow;

/// The name of a link type without `LINKTYPE_`, in lower case; `linktype_N` for those that carry no IP packets.
///
/// Source: <https://www.tcpdump.org/linktypes.html>.
pub fn link_type_name(link_type: u16) -> Cow<'static, str> {
    Cow::Borrowed(match link_type {
        0 => "null",
        1 => "ethernet",
        6 => "ieee802_5",
        7 => "arcnet_bsd",
        8 => "slip",
        9 => "ppp",
        10 => "fddi",
        50 => "ppp_hdlc",
        51 => "ppp_ether",
        100 => "atm_rfc1483",
        101 => "raw",
        104 => "c_hdlc",
        105 => "ieee802_11",
        107 => "frelay",
        108 => "loop",
        109 => "enc",
        113 => "linux_sll",
        114 => "ltalk",
        117 => "pflog",
        119 => "ieee802_11_prism",
        122 => "ip_over_fc",
        127 => "ieee802_11_radiotap",
        147..=162 => return Cow::Owned(format!("user{}", link_type - 147)),
        163 => "ieee802_11_avs",
        166 => "ppp_pppd",
        187 => "bluetooth_hci_h4",
        189 => "usb_linux",
        192 => "ppi",
        195 => "ieee802_15_4_withfcs",
        204 => "ppp_with_dir",
        220 => "usb_linux_mmapped",
        228 => "ipv4",
        229 => "ipv6",
        230 => "ieee802_15_4_nofcs",
        239 => "nflog",
        242 => "ipoib",
        249 => "usbpcap",
        252 => "wireshark_upper_pdu",
        253 => "netlink",
        276 => "linux_sll2",
        _ => return Cow::Owned(format!("linktype_{link_type}")),
    })
}
