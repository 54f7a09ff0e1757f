//! The ids of findings and their explanations.

use serde::Serialize;

/// Declares the ids in the order of causes, each with its explanation: the examined object, and the consequence of a
/// problem.
macro_rules! finding_ids {
    ($($id:ident: $explanation:literal,)*) => {
        /// The stable identity of a finding. `docs/check.md` lists every id with [`FindingId::explanation`].
        ///
        /// The order is the order of causes: a finding can explain those after it, not those before it.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, strum::IntoStaticStr, strum::EnumIter,
        )]
        #[strum(serialize_all = "kebab-case")]
        #[serde(rename_all = "kebab-case")]
        pub enum FindingId {
            $($id,)*
        }

        impl FindingId {
            /// The documentation of the id.
            pub const fn explanation(self) -> &'static str {
                match self {
                    $(Self::$id => $explanation,)*
                }
            }
        }
    };
}

finding_ids! {
    KernelMptcp:
        "The kernel's MPTCP implementation: upstream (Linux 5.6 and later, `IPPROTO_MPTCP`), the out-of-tree one \
         of multipath-tcp.org, or none. Pathbench and current tools use the upstream implementation only.",
    MptcpEnabled:
        "`net.mptcp.enabled` of this network namespace. With 0 the kernel refuses MPTCP sockets (ENOPROTOOPT), \
         and listeners answer MP_CAPABLE with plain TCP.",
    MptcpPathManager:
        "The path manager of new MPTCP connections (`net.mptcp.path_manager`, `net.mptcp.pm_type` before Linux \
         6.15). With `userspace` the kernel ignores endpoints and limits, and a program such as mptcpd has to \
         open subflows.",
    DefaultRoute:
        "The route that the kernel selects for new connections without a bound address (RTM_GETROUTE). The kernel uses a \
         route over an interface without a carrier, unless `ignore_routes_with_linkdown` forbids it: programs connect \
         nowhere, although other paths work.",
    Interface:
        "Interfaces that are not fit to be paths: down, without a carrier, without an address, or without a route \
         beyond their subnet.",
    Paths:
        "The interfaces that packets to a server can use. Multipath requires two of them.",
    EndpointAddress:
        "MPTCP endpoints whose address is not assigned to this host. The kernel accepts them, but opens no \
         subflow from them (MPJoinSynTxBindErr); an endpoint names an address of this host, never one of the \
         peer.",
    EndpointDevice:
        "MPTCP endpoints that name another interface than the one with their address, or an interface that does \
         not exist. Their subflows leave by that interface.",
    EndpointFlags:
        "MPTCP endpoints with neither `subflow` nor `signal`: the path manager neither opens subflows from them \
         nor announces them.",
    AnnouncedAddress:
        "Addresses that this host announces to its clients (endpoints with `signal`), where programs of this host listen with \
         MPTCP: private ones behind NAT, and those without a listening MPTCP socket.",
    MptcpLimits:
        "The path manager's limits (`ip mptcp limits`). With `subflows` 0 a connection has its initial subflow \
         only; a limit below the number of paths leaves paths unused.",
    MptcpEndpoint:
        "MPTCP endpoints with `subflow` on the interfaces that are fit to be paths. Without one on a second path \
         the path manager knows no address for a second subflow.",
    SourceRoute:
        "The interface by which packets from each local address leave, according to the kernel (RTM_GETROUTE). \
         Without a rule or a route for the second address its subflow uses the first path, or no path.",
    RpFilter:
        "Reverse path filtering (`net.ipv4.conf.*.rp_filter`; the larger value of `all` and the interface is in \
         effect). In strict mode (1) the kernel drops packets that arrive on an interface by which it would not \
         send the answer.",
    FirewallMptcp:
        "nf_tables rules of this host, also those of iptables-nft, that remove MPTCP options or drop packets with them. A \
         rule for forwarded packets is advice. Reading the rules requires CAP_NET_ADMIN.",
    FirewallLegacy:
        "Tables of legacy iptables. Pathbench does not read their rules; `iptables-legacy-save` prints them.",
    VpnBypass:
        "MPTCP endpoints with `dev` beside a VPN that has the default route: their subflows leave by the named \
         interface and bypass the VPN.",
    Metered:
        "Interfaces that are metered: cellular ones, and those that NetworkManager reports as metered. Their \
         endpoints should have the flag `backup`.",
    SameSubnet:
        "Interfaces with addresses in the same subnet. The main table's route to the subnet selects one of them \
         for all packets, and the kernel answers ARP requests for either address on both.",
    NetworkManager:
        "NetworkManager, which since 1.40 adds MPTCP endpoints for its connections and replaces changed ones.",
    Mptcpd:
        "mptcpd, which adds endpoints, raises limits and leaves the endpoints of removed interfaces.",
    SystemdNetworkd:
        "systemd-networkd, which removes policy rules that it did not make, unless \
         ManageForeignRoutingPolicyRules=no.",
    MptcpBlackhole:
        "The kernel's detection of paths that drop SYN packets with MP_CAPABLE. After a detection, the kernel \
         opens connections of this network namespace without MPTCP for `net.mptcp.blackhole_timeout` or longer.",
    ServerReach:
        "The server at its address and port, over TCP on every path.",
    ServerProtocol:
        "The server's protocol. With a server other than `pathbench serve`, only TCP and MPTCP can be \
         examined.",
    ServerCounters:
        "The MPTCP counters of the server (MPCapableSYNRX and others), which the current `pathbench serve` \
         reports. They show where an option was lost.",
    PathTcp:
        "Plain TCP between a local address and an address of the server: a short transfer in both directions.",
    ServerMptcp:
        "MPTCP at the server. Without it every connection falls back to TCP. At the client a middlebox that \
         removes MP_CAPABLE looks the same; only a Pathbench server tells them apart.",
    PathMtu:
        "The path MTU in both directions, found by probes. A path that drops large packets without an ICMP \
         message stops every subflow on it.",
    PathPayload:
        "The payload of a short transfer, of which every byte is verified. A middlebox that changes payload \
         damages the data of applications, or its DSS checksums fail.",
    PathMpCapable:
        "MP_CAPABLE in the handshake of a connection that begins on the path: in the SYN, the SYN/ACK and the \
         third ACK (RFC 8684, section 3.1).",
    PathDss:
        "The DSS option in the data after the handshake (RFC 8684, section 3.3). Where a middlebox removes \
         it, connections stall or fall back, and subflows are reset.",
    PathAddAddr:
        "ADD_ADDR: the addresses that the server announces for further subflows (RFC 8684, section 3.4.1).",
    PathFamily:
        "Interfaces with one address family only, in which the server has no address. A connection to an IPv6 address can \
         have subflows to announced IPv4 addresses (ADD_ADDR); an IPv4 socket has none over IPv6.",
    ServerListener:
        "The server's listening sockets. A join arrives at the port of a listener, also at an announced address: without \
         one the kernel answers it with a reset.",
    ServerLimits:
        "The server's limit of subflows per connection. It rejects joins beyond it (MPJoinRejected).",
    PathMpJoin:
        "MP_JOIN: a subflow on the path of a connection that begins on another one (RFC 8684, section 3.2).",
    PathUdp:
        "Small datagrams to the server's UDP ports on each path. QUIC requires UDP.",
    Multipath:
        "The proof: a short transfer over MPTCP, with the bytes that this host sent on each path: by the interface by \
         which they left, not by their address. A path counts from 1 % of the bytes on, paths of one interface count once.",
    MptcpFallback:
        "Counters of MPTCP connections that fell back to TCP, in the handshake or later, since the start of this \
         network namespace.",
    JoinFailures:
        "Counters of failed joins (subflows) since the start of this network namespace: no address, no route, a \
         reset or a rejection.",
    RpFilterDrops:
        "TcpExt.IPReversePathFilter: packets that reverse path filtering dropped since the start of this network \
         namespace.",
    JoinInitialAddress:
        "`net.mptcp.allow_join_initial_addr_port`. With 0, peers of this host's listeners open no further subflow \
         to the address of the initial one; they require an announced address (`signal`).",
    CongestionControl:
        "The congestion control of new connections, and the ones that an ordinary user can select.",
    MptcpScheduler:
        "The packet scheduler of new MPTCP connections (`net.mptcp.scheduler`) and the ones that this kernel has \
         (`net.mptcp.available_schedulers`, Linux 6.10). Others are BPF programs that are loaded first.",
    TrafficShaping:
        "Queueing disciplines of this host's paths that limit their rate, or delay and drop packets: tbf, htb, hfsc, cake, \
         netem. Ingress policers and eBPF programs are not read.",
    TcpBuffers:
        "The limits of TCP's automatic buffers (`net.ipv4.tcp_rmem`, `net.ipv4.tcp_wmem`) beside the bandwidth- \
         delay product of all paths together: an MPTCP connection shares one receive buffer among its subflows.",
    Offloads:
        "Offloads of fast interfaces: GSO, TSO and GRO. Without them the processor handles each packet \
         separately.",
    UdpBuffers:
        "The largest socket buffers that a program can request (`net.core.rmem_max`, `net.core.wmem_max`). QUIC \
         loses packets at high rates with small ones.",
    UdpGso:
        "UDP GSO (`UDP_SEGMENT`, Linux 4.18), with which QUIC sends several packets in one call.",
    LabUserNamespaces:
        "Whether an ordinary user can run labs: user namespaces, and AppArmor's restriction of them.",
    LabTun:
        "`/dev/net/tun`, which links of the `emulated` engine require.",
    LabNfTables:
        "nf_tables, which routers of a lab require for `icmp`, MSS clamping and middleboxes.",
    LabNetem:
        "The queueing discipline netem, with which the `kernel` engine adds delay and loss. Without it such links \
         use the `emulated` engine.",
}

impl FindingId {
    pub fn name(self) -> &'static str {
        self.into()
    }
}
