//! The entries of the gallery: scenario, figure, sentence.

pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) entries: &'static [Entry],
}

pub(crate) struct Entry {
    pub(crate) scenario: &'static str,
    /// The figure's file in the result, without `.svg`.
    pub(crate) figure: &'static str,
    /// The lesson. `{label.figure}` becomes the median of that figure, `{a.figure/b.figure}` a ratio of medians, `#2` behind
    /// a figure names the second variant. The figure shows these numbers, too.
    pub(crate) sentence: &'static str,
    /// Repetitions, if the scenario's own take too long for the gallery.
    repeat: Option<u32>,
    /// Runs in parallel; more than one only for light traffic.
    jobs: u32,
}

impl Entry {
    const fn new(scenario: &'static str, figure: &'static str, sentence: &'static str) -> Self {
        Self { scenario, figure, sentence, repeat: None, jobs: 1 }
    }

    const fn repeated(self, repeat: u32) -> Self {
        Self { repeat: Some(repeat), ..self }
    }

    const fn in_parallel(self, jobs: u32) -> Self {
        Self { jobs, ..self }
    }

    /// The options of `lab run`.
    pub(crate) fn options(&self, repeat: Option<u32>) -> Vec<String> {
        let mut options = Vec::new();
        if let Some(repeat) = repeat.or(self.repeat) {
            options.extend(["--repeat".to_owned(), repeat.to_string()]);
        }
        if self.jobs > 1 {
            options.extend(["--jobs".to_owned(), self.jobs.to_string()]);
        }
        options
    }
}

pub(crate) fn entries() -> impl Iterator<Item = &'static Entry> {
    SECTIONS.iter().flat_map(|section| section.entries)
}

pub(crate) const SECTIONS: &[Section] = &[
    Section { title: "Two paths", entries: TWO_PATHS },
    Section { title: "What limits the rate", entries: LIMITS },
    Section { title: "A path goes down", entries: FAILURES },
    Section { title: "Wi-Fi and LTE", entries: MOBILITY },
    Section { title: "Paths with different MTUs", entries: MTU },
    Section { title: "The kernel's own test", entries: SIMULT_FLOWS },
    Section { title: "The SIGCOMM 2020 tutorial", entries: TUTORIAL },
    Section { title: "Faults", entries: FAULTS },
];

const TWO_PATHS: &[Entry] = &[
    Entry::new(
        "hello",
        "timeline",
        "MPTCP and MPQUIC send over both paths at the same time: {mptcp.goodput_mbps} and {mpquic.goodput_mbps}, where TCP over \
         one path delivers {tcp@eth.goodput_mbps} and QUIC {quic@eth.goodput_mbps}.",
    ),
    Entry::new(
        "stable",
        "overview",
        "A second path of 20 Mbit/s beside one of 50 raises the goodput of MPTCP and MPQUIC in both directions and shortens the bulk \
         transfer; a ping gains nothing from it.",
    )
    .repeated(1),
    Entry::new(
        "bufferbloat",
        "response-dsl-queue-discipline-drop-tail",
        "Where a transfer fills a queue of 300 ms, everything else on the path waits as long, and requests on the loaded connection \
         longer: {tcp@dsl.self_loaded_p50_ms#2} on TCP and {mptcp.self_loaded_p50_ms#2} on MPTCP.",
    )
    .repeated(1),
    Entry::new(
        "datagrams",
        "comparison",
        "Over two paths that each lose one packet in ten, QUIC loses {quic.datagram_loss#1} of a voice call. Multipath QUIC with a copy \
         on each path loses {mpquic.datagram_loss#2}, for twice the bytes.",
    ),
    Entry::new(
        "aggregate-2x10g",
        "comparison",
        "MPTCP over two links of 10 Gbit/s delivers {mptcp.goodput_mbps#1} in a download and {mptcp.goodput_mbps#2} in an upload, TCP \
         over one link {tcp.goodput_mbps#1} and {tcp.goodput_mbps#2}.",
    ),
];

const LIMITS: &[Entry] = &[
    Entry::new(
        "limits-receive-window",
        "comparison",
        "The client's receive buffers hold TCP to {tcp.goodput_mbps} and MPTCP to {mptcp.goodput_mbps} over paths of 30 and 20 Mbit/s. The \
         report names the receive window, and the setting that enlarges it.",
    ),
    Entry::new(
        "limits-send-buffer",
        "comparison",
        "The server's send buffers hold TCP to {tcp.goodput_mbps} and MPTCP to {mptcp.goodput_mbps} over the same paths.",
    ),
    Entry::new(
        "limits-application",
        "comparison",
        "An application that sends 8 Mbit/s gains nothing from a second path: {tcp.goodput_mbps} on TCP, {mptcp.goodput_mbps} on MPTCP.",
    ),
    Entry::new(
        "limits-processor",
        "comparison",
        "Over links without a rate, the CPU time of one end limits the rate of QUIC, and the report names the end.",
    ),
    Entry::new(
        "limits-shared-bottleneck",
        "comparison",
        "Both paths cross one link of 20 Mbit/s: {tcp@eth.goodput_mbps} and {tcp@wlan.goodput_mbps} over one path, \
         {mptcp.goodput_mbps} over both.",
    ),
    Entry::new(
        "limits-head-of-line",
        "comparison",
        "Beside a path of 800 ms round-trip time, MPTCP delivers {mptcp.goodput_mbps} over a path of 40 Mbit/s and one of 10: data of the \
         fast path waits at the receiver for data of the slow one.",
    ),
];

const FAILURES: &[Entry] = &[
    Entry::new(
        "failover",
        "timeline",
        "When the interface of one path goes down, MPTCP and MPQUIC continue over the other path, and TCP and QUIC over the lost path \
         end, because their application waits 3 s at most.",
    ),
    Entry::new(
        "blackhole",
        "timeline",
        "A path that drops packets silently notifies nobody: MPTCP and MPQUIC detect it by missing acknowledgements, continue over the \
         other path, and use the first one again after it is restored.",
    ),
    Entry::new(
        "low-rate-return",
        "delay",
        "Messages that need one path only stay with MPTCP on the path that carried them while the first one was gone; they return to it \
         where the other path is a backup, and with MPQUIC's scheduler `backup`.",
    ),
    Entry::new(
        "dead-first-path",
        "timeline",
        "Over a first path that is a black hole before the connection, no transport opens a connection within 5 s; begun on the other \
         path, MPTCP and MPQUIC deliver at once.",
    ),
];

const MOBILITY: &[Entry] = &[
    Entry::new(
        "walk-away",
        "delay",
        "While the Wi-Fi fades, messages take longer and longer; then the connections of TCP and QUIC end, and MPTCP and MPQUIC deliver \
         every message, over LTE.",
    )
    .in_parallel(4),
    Entry::new(
        "walk-back",
        "delay",
        "LTE carries the messages of MPTCP and MPQUIC while the Wi-Fi is out of range; those of TCP and QUIC wait until it is back.",
    )
    .in_parallel(4),
    Entry::new(
        "elevator",
        "delay",
        "When both radios fade, neither MPTCP nor MPQUIC delivers; both continue when LTE is back, and deliver every message.",
    )
    .in_parallel(2),
    Entry::new(
        "abrupt",
        "delay",
        "An interface that goes down at once is the simple case, because the kernel reports it: MPTCP and MPQUIC deliver every \
         message, and TCP and QUIC have no second path.",
    )
    .repeated(1)
    .in_parallel(4),
    Entry::new(
        "ipv6-wifi-ipv4-cellular",
        "delay",
        "A client on an IPv6-only Wi-Fi can continue over an IPv4-only LTE only if the server has announced its IPv4 address by ADD_ADDR \
         (the lower panels).",
    ),
];

const MTU: &[Entry] = &[
    Entry::new(
        "mtu-tcp",
        "mtu",
        "One ICMP message from the router in front of the small hop is enough: the MSS of TCP and MPTCP falls to that of the hop, and \
         QUIC finds the same size by its own probes.",
    )
    .repeated(1),
    Entry::new(
        "mtu-mixed",
        "comparison",
        "A path with a smaller MTU adds its goodput all the same, in either order: each subflow has an MSS of its own.",
    )
    .repeated(1),
    Entry::new(
        "mtu-probing",
        "matrix",
        "Without ICMP and with `tcp_mtu_probing` 0, TCP over the small path makes no progress and MPTCP has the other path only; \
         with 2, the search finds the size and both paths carry data.",
    )
    .repeated(1),
    Entry::new(
        "mtu-base-mss",
        "comparison",
        "The size at which MTU probing begins, `tcp_base_mss`, decides little: the search goes upwards from each of the three.",
    )
    .repeated(1),
    Entry::new(
        "mtu-shrink",
        "mtu",
        "With ICMP the MSS follows a path that shrinks; without it TCP stops, MPTCP continues over the other path, \
         and QUIC finds the smaller size by itself.",
    )
    .repeated(1),
];

const SIMULT_FLOWS: &[Entry] = &[
    Entry::new(
        "simult-flows-10-10",
        "comparison",
        "Over two equal links the large file takes MPTCP {mptcp.fct_ms#1} in one direction and {mptcp.fct_ms#2} in the other, within \
         the kernel's bound of 7.91 s.",
    )
    .repeated(3),
    Entry::new(
        "simult-flows-10-10-delay",
        "comparison",
        "A delay of 25 ms on one of the links costs little: {mptcp.fct_ms#1} and {mptcp.fct_ms#2}, under the same bound of 7.91 s.",
    )
    .repeated(3),
    Entry::new(
        "simult-flows-10-3",
        "comparison",
        "Links of 10 and 3 Mbit/s carry the file in {mptcp.fct_ms#1} and {mptcp.fct_ms#2}; the kernel's bound is 11.9 s.",
    )
    .repeated(3),
    Entry::new(
        "simult-flows-10-3-delay",
        "comparison",
        "Where the slow link also has the longer delay, the file takes {mptcp.fct_ms#1} and {mptcp.fct_ms#2}, within 11.9 s.",
    )
    .repeated(3),
    Entry::new(
        "simult-flows-10-3-swapped",
        "comparison",
        "Where the fast link has the longer delay, the file takes {mptcp.fct_ms#1} and {mptcp.fct_ms#2}, within the same bound of \
         11.9 s.",
    )
    .repeated(3),
];

const TUTORIAL: &[Entry] = &[
    Entry::new(
        "tutorial-aggregation",
        "timeline",
        "Two paths of 20 Mbit/s give MPTCP {mptcp.goodput_mbps/tcp.goodput_mbps} and MPQUIC {mpquic.goodput_mbps/tcp.goodput_mbps} \
         the goodput of TCP over one.",
    ),
    Entry::new(
        "tutorial-scheduler",
        "comparison",
        "The scheduler decides the delay: a request takes MPQUIC {mpquic.ping_ms#1} by the path with the lowest RTT and \
         {mpquic.ping_ms#2} where round robin uses both.",
    )
    .repeated(3),
    Entry::new(
        "tutorial-bottleneck",
        "timeline",
        "MPTCP and MPQUIC follow the rates of both paths, 40, 30, 20, 30 and 40 Mbit/s in sum, without a new connection.",
    ),
    Entry::new(
        "tutorial-quic",
        "timeline",
        "A file of 5 MB over two paths ends after {mpquic.fct_ms} with MPQUIC, and after {quic.fct_ms} with QUIC over one.",
    ),
];

const FAULTS: &[Entry] = &[
    Entry::new(
        "broken-mptcp-off",
        "timeline",
        "With `net.mptcp.enabled=0` no program can open an MPTCP socket, and the transfer never begins.",
    ),
    Entry::new(
        "broken-server-tcp",
        "timeline",
        "A server without MPTCP answers as plain TCP: the connection falls back and keeps its first path, {mptcp.goodput_mbps} of \
         40 Mbit/s.",
    ),
    Entry::new(
        "broken-limits",
        "timeline",
        "With a limit of 0 additional subflows MPTCP is negotiated, and still only eth carries data.",
    ),
    Entry::new(
        "broken-no-endpoint",
        "timeline",
        "Without an MPTCP endpoint the path manager knows no address for a second subflow: only eth carries data.",
    ),
    Entry::new(
        "broken-no-source-rule",
        "timeline",
        "Two subflows are no proof of two paths: both leave over eth, which therefore carries all bytes, and the goodput, \
         {mptcp.goodput_mbps}, is the rate of one link.",
    ),
    Entry::new(
        "broken-rp-filter",
        "timeline",
        "Strict reverse path filtering drops the answers that arrive on wlan: its subflow is never established, and only eth carries \
         data.",
    ),
    Entry::new(
        "broken-strip-mp-capable",
        "timeline",
        "A middlebox that removes MP_CAPABLE turns every connection that begins on its path into plain TCP: only eth carries data.",
    ),
    Entry::new(
        "broken-strip-mp-join",
        "timeline",
        "A middlebox that removes MP_JOIN leaves MPTCP with the path on which the connection began.",
    ),
    Entry::new(
        "broken-strip-dss",
        "timeline",
        "A subflow whose path removes the DSS option is opened and closed at once; the connection continues over eth.",
    ),
    Entry::new(
        "broken-rewrite-payload",
        "timeline",
        "A middlebox that changes payload damages the file within milliseconds: both paths carry data, and the receiver finds a wrong \
         byte, because MPTCP's checksums are off by default.",
    ),
    Entry::new(
        "broken-udp",
        "timeline",
        "A network that drops UDP stops QUIC on its path and leaves MPQUIC with the other one; MPTCP uses both.",
    ),
    Entry::new(
        "broken-mtu",
        "mtu",
        "In a PMTU black hole the handshake passes and no full-sized segment does: the subflow on wlan is open, keeps its path MTU of 1500 \
         bytes, and delivers nothing.",
    ),
    Entry::new(
        "broken-small-buffers",
        "timeline",
        "A receive buffer that is large enough for the short path alone makes MPTCP slower than TCP: data of the short path waits in it for \
         data of the long one.",
    ),
    Entry::new(
        "broken-address-family",
        "timeline",
        "An IPv6-only path is of no use to a connection by IPv4, whose socket has no subflows over IPv6: only wlan carries data.",
    ),
    Entry::new(
        "broken-nat-announcement",
        "timeline",
        "The server announces an address that the client does not reach, and accepts joins to no other: only eth carries data.",
    ),
    Entry::new(
        "broken-foreign-endpoints",
        "timeline",
        "Two interfaces in one subnet answer for each other: the packets of the subflow on wlan0 do not return there, and only eth0 \
         carries data.",
    ),
    Entry::new(
        "broken-unconfigured",
        "timeline",
        "Two hosts as installed have MPTCP on and no endpoint: the second link carries nothing until somebody configures it.",
    ),
];
