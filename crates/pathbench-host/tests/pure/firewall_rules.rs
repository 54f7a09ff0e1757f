//! Rules of iptables-nft that concern MPTCP, as the kernel reports them: extensions by name, with their structures.

use pathbench_host::firewall::rules::{MptcpAction, MptcpRule};
use pathbench_host::netlink::message::Encoder;

fn expression(name: &str, data: Encoder) -> Encoder {
    Encoder::default().text(1, name).nested(2, data)
}

fn extension(kind: &str, name: &str, info: &[u8]) -> Encoder {
    expression(kind, Encoder::default().text(1, name).be32(2, 0).bytes(3, info))
}

/// `iptables -p tcp --tcp-option OPTION`; with `inverted`, `! --tcp-option OPTION`.
fn tcp_option(option: u8, inverted: bool) -> Encoder {
    let mut info = [0, 0, 255, 255, 0, 0, 255, 255, option, 0, 0, 0];
    info[11] = if inverted { 8 } else { 0 };
    extension("match", "tcp", &info)
}

fn drop() -> Encoder {
    let verdict = Encoder::default().be32(1, 0);
    expression("immediate", Encoder::default().be32(1, 0).nested(2, Encoder::default().nested(2, verdict)))
}

fn strip(words: [u32; 8]) -> Encoder {
    extension("target", "TCPOPTSTRIP", &words.map(u32::to_ne_bytes).concat())
}

fn parsed(expressions: &[Encoder]) -> Option<MptcpAction> {
    let list = expressions.iter().fold(Encoder::default(), |list, one| list.nested(1, one.clone()));
    // struct nfgenmsg with NFPROTO_IPV4
    let rule =
        Encoder::with_header(&[2, 0, 0, 0]).text(1, "filter").text(2, "OUTPUT").be64(3, 9).nested(4, list);
    let rule = MptcpRule::parse(&rule.into_bytes())?;
    assert_eq!((rule.chain.as_str(), rule.handle, rule.subtype), ("ip filter OUTPUT", 9, None));
    Some(rule.action)
}

#[test]
fn extensions_of_iptables_are_read() {
    let reject = || extension("target", "REJECT", &[0; 4]);
    assert_eq!(parsed(&[tcp_option(30, false), drop()]), Some(MptcpAction::Drop));
    assert_eq!(parsed(&[tcp_option(30, false), reject()]), Some(MptcpAction::Reject));
    assert_eq!(parsed(&[tcp_option(30, true), drop()]), None, "all packets without the option");
    assert_eq!(parsed(&[tcp_option(5, false), drop()]), None, "another option");
    assert_eq!(parsed(&[tcp_option(30, false)]), None, "without a verdict");
    assert_eq!(parsed(&[reject()]), None, "all packets");
    assert_eq!(parsed(&[strip([1 << 30, 0, 0, 0, 0, 0, 0, 0])]), Some(MptcpAction::Strip));
    assert_eq!(parsed(&[strip([1 << 5, 0, 0, 0, 0, 0, 0, 0])]), None, "another option");
    assert_eq!(
        parsed(&[extension("match", "tcp", &[30]), extension("target", "TCPOPTSTRIP", &[]), drop()]),
        None
    );
}
