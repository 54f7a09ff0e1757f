//! The message of each mistake: line, key, problem and remedy.

use crate::mistakes::{BASE, lines};
use pathbench_link::PARAMETERS;

/// Text appended to [`BASE`] (line 12 on), and the one mistake in it. `PARAMETERS` stands for the keys of all of them,
/// `NOT_TOML` for that remedy.
const ONE_BY_ONE: &[(&str, &str)] = &[
    // Keys
    (
        "[run]\ndurration = \"3s\"",
        "13: run.durration: there is no key `durration` here; did you mean `duration`? known are client, \
         server, family, congestion, patience, transports, pattern, duration, ping, bulk, throughput, \
         interactive, responsiveness, datagrams, tls, packet_sizes, quic, seed, repeat, warm_up, \
         sample_interval, lateness_tolerance",
    ),
    (
        "[paths]",
        "12: paths: there is no key `paths` here; did you mean `path`? known are name, description, matrix, \
         run, path, link, host, router, event, expect",
    ),
    ("[[event]]\nat = \"1s\"\naction = \"down\"", "12: event.0.path: is missing; add path = \"eth\""),
    ("[[path]]\nrate = \"1mbit\"", "12: path.3.name: is missing; add name = \"path\""),
    ("[[link]]\nname = \"x\"", "12: link.x.ends: is missing; add ends = [\"client:eth\", \"server:eth\"]"),
    // Types
    (
        "[run]\ntransports = 3",
        "13: run.transports: a number is not a text or a list of texts; give a text or a list of texts, as \
         in transports = [\"mptcp\"]",
    ),
    (
        "[run]\nrepeat = \"3\"",
        "13: run.repeat: a text is not a whole number without quotes; give a whole number without quotes, \
         as in repeat = 1",
    ),
    (
        "run = 3",
        "12: path.lte.run: there is no key `run` here; known are name, client_address, server_address, \
         PARAMETERS, preset, upload, download, engine, capture, shared_subnet, tolerance, backup, weight, icmp, clamp_mss, \
         middlebox, path_mtu",
    ),
    ("[event]\nat = \"1s\"", "12: event: [event] is a single table; write [[event]]"),
    // Quantities
    (
        "delay = \"1\"",
        "12: path.lte.delay: `1` has no unit; give a number with us, ms, s, m (minutes), h or d, as in \
         \"10ms\"",
    ),
    (
        "delay = 1",
        "12: path.lte.delay: `1` has no unit; give a number with us, ms, s, m (minutes), h or d, as in \
         \"10ms\"",
    ),
    ("delay = \"2m\"", "12: path.lte.delay: `2m` is out of range; give \"0s\" to \"1m\""),
    (
        "loss = \"0.5\"",
        "12: path.lte.loss: `0.5` has no unit; give a percentage with its sign, as in \"0.1%\"",
    ),
    (
        "queue = 200",
        "12: path.lte.queue: `200` has no unit; give a time at the link's rate (\"100ms\"), a number of \
         packets (\"200p\") or bytes (\"256kB\")",
    ),
    (
        "queue = \"1kB\"",
        "12: path.lte.queue: the queue `1kB` does not hold one packet of 1500 bytes; give at least \
         \"1514B\" or \"1p\"",
    ),
    ("mtu = 70000", "12: path.lte.mtu: `70000` is out of range; give 68 to 65535"),
    (
        "jitter = \"2ms\"",
        "12: path.lte.jitter: the jitter is larger than the delay; give a delay at least as large: no \
         packet arrives before it is sent",
    ),
    (
        "upload = { rate = \"1kbit\" }",
        "12: path.lte.upload.rate: `1kbit` is out of range; give \"8kbit\" to \"100gbit\"",
    ),
    (
        "engine = \"kernal\"",
        "12: path.lte.engine: `kernal` is not one of its values; did you mean `kernel`? known are auto, \
         kernel, emulated",
    ),
    // Addresses
    (
        "client_address = \"10.0.0.1\"",
        "12: path.lte.client_address: `10.0.0.1` has no prefix length; append it, as in \"192.168.1.2/24\" \
         or \"fd00:1::2/64\"",
    ),
    (
        "client_address = \"10.0.0.0/24\"",
        "12: path.lte.client_address: `10.0.0.0/24` is the address of the network itself; give the address \
         of a host",
    ),
    (
        "client_address = \"10.0.0.1/32\"",
        "12: path.lte.client_address: /32 is not a prefix length of a link; give /8 to /31: both ends must fit in",
    ),
    (
        "client_address = \"10.0.0.1/24\"\nserver_address = \"10.0.1.1/24\"",
        "12: path.lte.client_address: 10.0.0.1/24 and 10.0.1.1/24 at `server` are not in one subnet; give \
         both ends addresses of one subnet, 10.0.0.0/24 for example",
    ),
    (
        "client_address = \"10.0.0.1/24\"\nserver_address = \"fd00::1/64\"",
        "12: path.lte.client_address: 10.0.0.1/24 has no counterpart: `server` has no IPv4 address; give \
         both ends addresses of the same IP version",
    ),
    (
        "client_address = \"10.0.0.1/24\"\nserver_address = \"10.0.0.1/24\"",
        "13: path.lte.server_address: `client` already has the address 10.0.0.1; give another",
    ),
    (
        "client_address = \"10.83.1.7/24\"",
        "12: path.lte.client_address: the subnet 10.83.1.0/24 overlaps with 10.83.1.0/24 of `wlan`; give \
         each link a subnet of its own",
    ),
    (
        "client_address = \"fd00::7/64\"",
        "12: path.lte.client_address: `lte` has no IPv4 address, which the run uses; give it one, or set \
         run.family = \"ipv6\"",
    ),
    (
        "client_address = \"10.9.0.1/24\"\n[run]\nfamily = \"ipv6\"\ntransports = [\"mptcp\", \"tcp@lte\"]",
        "15: run.transports: `tcp@lte`: `lte` has no IPv6 address; give the path one, or leave this \
         transport out",
    ),
    (
        "mtu = 1000\n[run]\nfamily = \"ipv6\"",
        "12: path.lte.mtu: an MTU of 1000 is too small for the IPv6 address fd83:0:0:2::1; give at least \
         1280 (RFC 8200), or IPv4 addresses only",
    ),
    // Names
    (
        "[[path]]\nname = \"eth\"",
        "13: path.eth.name: the name `eth` is already taken on line 3; choose another",
    ),
    (
        "[[path]]\nname = \"a/b\"",
        "13: path.a/b.name: `a/b` is not valid as the name of a path or link; give 1 to 15 letters, digits, \
         `-` and `_`, the first a letter or digit",
    ),
    (
        "[[path]]\nname = \"lo\"",
        "13: path.lo.name: `lo` is reserved; choose another; lo, all and default are special names in \
         the kernel",
    ),
    (
        "[[link]]\nname = \"x\"\nends = [\"client:eth\", \"server:x\"]",
        "14: link.x.ends.0: `client` already has an interface `eth`, of `eth`; name this one differently",
    ),
    (
        "[[link]]\nname = \"x\"\nends = [\"client:x\", \"servr:x\"]",
        "14: link.x.ends.1: there is no host or router `servr`; declare it with [[host]] or [[router]], or \
         correct it: did you mean `server`? known are client, server",
    ),
    (
        "[[link]]\nname = \"x\"\nends = [\"client\", \"server:x\"]",
        "14: link.x.ends.0: `client` does not name a host and its interface; write \"HOST:INTERFACE\", as \
         in \"client:eth\"",
    ),
    (
        "[[link]]\nname = \"x\"\nends = [\"client:x\", \"client:y\"]",
        "14: link.x.ends.1: both ends are at `client`; link two different nodes",
    ),
    (
        "[host.clinet.sysctl]\n\"net.ipv4.tcp_mtu_probing\" = 1",
        "12: host.clinet: `clinet` has no link; link it, or correct its name: did you mean `client`? known \
         are client, server",
    ),
    // Hosts
    (
        "[host.client.sysctl]\n\"kernel.hostname\" = \"x\"",
        "13: host.client.sysctl.kernel.hostname: `kernel.hostname` does not belong to a lab host; give one \
         that begins with net.; the others belong to the whole machine",
    ),
    (
        "[host.client.sysctl]\n\"net/../../etc.passwd\" = 1",
        "13: host.client.sysctl.net/../../etc.passwd: `net/../../etc.passwd` is not the name of a sysctl; \
         give its dotted name, as in \"net.ipv4.tcp_mtu_probing\"",
    ),
    ("[host.client.mptcp]\nsubflows = 9", "13: host.client.mptcp.subflows: `9` is out of range; give 0 to 8"),
    (
        "[host.client.mptcp]\nendpoints = [{ path = \"wlna\", flags = [\"subflow\"] }]",
        "13: host.client.mptcp.endpoints.0.path: there is no path or link at `client` `wlna`; did you mean \
         `wlan`? known are eth, wlan, lte",
    ),
    (
        "[host.client.mptcp]\nendpoints = [{ path = \"wlan\", flags = [\"fullmash\"] }]",
        "13: host.client.mptcp.endpoints.0.flags: `fullmash` is not a flag of an endpoint; did you mean \
         `fullmesh`? known are subflow, signal, backup, fullmesh",
    ),
    (
        "[host.server.mptcp]\nendpoints = [{ address = \"10.83.0.1\", flags = [\"signal\"] }]",
        "13: host.server.mptcp.endpoints.0.address: `10.83.0.1` is not an address of `server`; its \
         addresses are 10.83.0.2, 10.83.1.2, 10.83.2.2",
    ),
    (
        "[host.client]\nroutes = [{ to = \"default\", via = \"10.83.0.9\" }]",
        "13: host.client.routes.0.via: `10.83.0.9` is no neighbour of `client`; its neighbours are \
         10.83.0.2, 10.83.1.2, 10.83.2.2",
    ),
    // Events
    (
        "[[event]]\nat = \"10s\"\npath = \"eth\"\naction = \"down\"",
        "13: event.0.at: the event comes at 10s, but the run ends at 10s; give an earlier time, or a longer \
         run.duration",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"down\"\nhost = \"router\"",
        "16: event.0.host: there is no end of `eth` at `router`; known are client, server",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"down\"\nloss = \"1%\"",
        "16: event.0.loss: the action `down` changes no loss; remove it, or make the action \"set\"",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"set\"",
        "15: event.0.action: `set` without anything to set; give what to set: PARAMETERS, path_mtu, icmp, \
         clamp_mss, middlebox",
    ),
    // Runs
    (
        "[run]\ntransports = [\"tcp\", \"mtcp\"]",
        "13: run.transports: `mtcp` is not a transport; did you mean `mptcp`? available are tcp, mptcp, \
         quic, mpquic and udp, each also with @PATH or @*",
    ),
    (
        "[run]\ntransports = [\"mpquic@wifi\"]",
        "13: run.transports: `mpquic@wifi`: the client has no path `wifi`; known are eth, wlan, lte",
    ),
    (
        "[run]\npattern = \"throughptu\"",
        "13: run.pattern: `throughptu` is not a pattern; did you mean `throughput`? known are throughput, \
         ping, bulk, interactive, responsiveness, suite, throughput-upload, throughput-download, \
         datagrams",
    ),
    (
        "[run]\npattern = [\"ping\", \"suite\"]",
        "13: run.pattern: `suite` holds `ping`, which is there already; remove one; run.repeat says how \
         often each runs",
    ),
    ("[run]\npattern = []", "13: run.pattern: names no pattern; give some, as in [\"ping\", \"throughput\"]"),
    (
        "[run]\nping.counts = 3",
        "13: run.ping.counts: there is no key `counts` here; did you mean `count`? known are count, \
         warm_up, interval, request, response, timeout",
    ),
    (
        "[run]\nbulk.bytes = 0",
        "13: run.bulk.bytes: both sizes are 0; give the bytes to download (bytes), those to upload, or both",
    ),
    (
        "[run]\nbulk.upload = \"2000GB\"",
        "13: run.bulk.upload: `2000GB` is out of range; give 0 to \"1024GiB\"",
    ),
    (
        "[run]\nduration = \"1s\"\npattern = \"interactive\"\ninteractive.interval = \"2s\"",
        "15: run.interactive.interval: the run is over before the second request; give less than \
         run.duration",
    ),
    (
        "[run]\nduration = \"2m\"\npattern = \"interactive\"\ninteractive.interval = \"1ms\"",
        "15: run.interactive.interval: 120000 requests exceed the limit of 36000 per run; give a longer \
         interval, or a shorter run.duration",
    ),
    (
        "[run]\nquic.scheduler = \"lowest_rtt\"",
        "13: run.quic.scheduler: `lowest_rtt` is not one of its values; did you mean `lowest-rtt`? known \
         are lowest-rtt, round-robin, weighted, backup, redundant",
    ),
    (
        "[run]\nquic.srtt_above = \"100ms\"",
        "13: run.quic.srtt_above: the scheduler `lowest-rtt` has no threshold; remove it, or make the \
         scheduler \"backup\"",
    ),
    (
        "[run]\nquic.silence = \"50ms\"",
        "13: run.quic.silence: a healthy path is silent between two heartbeats; give more than \
         run.quic.heartbeat, several times that to tolerate a loss",
    ),
    (
        "[run]\nquic.congestion = \"reno\"",
        "13: run.quic.congestion: `reno` is not one of its values; known are cubic, newreno, bbr3",
    ),
    ("weight = 0", "12: path.lte.weight: `0` is out of range; give 1 to 1000"),
    (
        "[run]\ntransports = [\"tcp@wifi\"]",
        "13: run.transports: `tcp@wifi`: the client has no path `wifi`; known are eth, wlan, lte",
    ),
    (
        "[run]\ntransports = [\"tcp@eth\", \"tcp@*\"]",
        "13: run.transports: `tcp@eth` is there twice; remove one; run.repeat says how often each runs",
    ),
    (
        "[run]\nduration = \"3s\"\niperf.bytes = \"1GB\"",
        "13: run.duration: the run ends by time or by run.throughput.bytes, not both; remove one of the two",
    ),
    (
        "[run]\niperf.omit = \"10s\"",
        "13: run.throughput.omit: the warm-up takes all of the run; give less than run.duration",
    ),
    ("[run]\nserver = \"client\"", "13: run.server: client and server are the same host; name two hosts"),
    (
        "[run]\nclient = \"laptop\"",
        "13: run.client: there is no host `laptop`; name one of the hosts as run.client: client, server",
    ),
    (
        "[[router]]\nname = \"a\"\n[[host]]\nname = \"far\"\n[[link]]\nname = \"x\"\nends = [\"far:x\", \
         \"a:x\"]\n[run]\nserver = \"far\"",
        "20: run.server: nothing links `client` with `far`; link them, directly or over routers (hosts do \
         not forward)",
    ),
    // Matrix
    (
        "[matrix]\n\"path.wlam.rate\" = [\"1mbit\"]",
        "13: matrix.path.wlam.rate: there is no path `wlam`; did you mean `wlan`? known are eth, wlan, lte",
    ),
    (
        "[matrix]\n\"path.wlan.rate\" = [\n  \"1mbit\",\n  \"2mbps\",\n]",
        "15: path.wlan.rate: `2mbps` has the unit `mbps`, which is unknown or ambiguous; give a number with \
         bit, kbit, mbit or gbit (per second), as in \"50mbit\"",
    ),
    (
        "[matrix]\n\"path.wlan.raet\" = [\"1mbit\"]",
        "13: path.wlan.raet: there is no key `raet` here; did you mean `rate`? known are name, \
         client_address, server_address, PARAMETERS, preset, upload, download, engine, capture, shared_subnet, tolerance, \
         backup, weight, icmp, clamp_mss, middlebox, path_mtu",
    ),
    (
        "[matrix]\n\"run.seed\" = [1, 2]",
        "13: matrix.run.seed: `run.seed` holds for the whole scenario and cannot vary; vary keys of paths, \
         links, hosts, events or run",
    ),
    (
        "[matrix]\n\"run.duration\" = \"3s\"",
        "13: matrix.run.duration: a text is not a list of values; give the values to go through, as in [0, \
         1, 2]",
    ),
    (
        "[matrix]\n\"path.eth.mtu\" = [1500, 1500]",
        "13: matrix.path.eth.mtu: `1500` is there twice; remove one; run.repeat says how often each runs",
    ),
    // Expectations
    ("[path]\nname = \"x\"", "12: there are several [[path]]; write [[path]] here too"),
    (
        "[host]\nname = \"client\"",
        "12: host: [host] is a single table; write [[host]], or [host.NAME] without a name",
    ),
    (
        "[expect]\n\"mptcp.stal_ms\" = \"< 5\"",
        "13: expect.\"mptcp.stal_ms\": a run has no field `stal_ms`; did you mean `stall_ms`?",
    ),
    (
        "[expect]\n\"mptcp.paths.wlan.shares\" = \"< 5\"",
        "13: expect.\"mptcp.paths.wlan.shares\": a run has no field `paths.wlan.shares`; did you mean \
         `paths.wlan.share`?",
    ),
    (
        "[expect]\n\"mptcp.paths.wifi.share\" = \"< 5\"",
        "13: expect.\"mptcp.paths.wifi.share\": there is no path or link `wifi`; known are eth, wlan, lte",
    ),
    (
        "[expect]\n\"tcp@eth.completed\" = true",
        "13: expect.\"tcp@eth.completed\": `tcp@eth` is not among the transports of the run; known are tcp, \
         mptcp",
    ),
    (
        "[expect]\n\"mptcp.stall_ms\" = \"< 500ms\"",
        "13: expect.\"mptcp.stall_ms\": `< 500ms` cannot be compared with it; give a number, or a \
         comparison with one, as in \"< 500\" (its unit is in the field's name)",
    ),
    (
        "[expect]\n\"mptcp.completed\" = \"yes\"",
        "13: expect.\"mptcp.completed\": `yes` cannot be compared with it; give true or false without \
         quotes",
    ),
    (
        "[expect]\n\"median(mptcp.completed)\" = \"> 1\"",
        "13: expect.\"median(mptcp.completed)\": `mptcp.completed` is not a number, so it has no median; \
         compare it without median( )",
    ),
    (
        "[expect]\n\"mptcp.stall_ms\" = { is = \"< 5\", when = { \"path.eth.mtu\" = 1500 } }",
        "13: expect.\"mptcp.stall_ms\": `when` fits no variant of the matrix; name keys of [matrix] and \
         values that they have there",
    ),
    // Text that is not TOML
    ("delay = ", "12: delay: the key has no value; give it one, or remove the key"),
    ("delay 1", "12: this is not TOML: key with no value, expected `=`; NOT_TOML"),
    ("delay = \"1ms", "12: delay: this is not TOML: invalid basic string, expected `\"`; NOT_TOML"),
    ("delay = 1ms", "12: delay: `1ms` has no quotes; write it as \"1ms\""),
    ("rate = \"2gbit\"", "12: rate: this is not TOML: duplicate key; NOT_TOML"),
    (
        "[run]\ntransports = [\"tcp\"\nduration = \"3s\"",
        "14: duration: this is not TOML: missing comma between array elements, expected `,`; NOT_TOML",
    ),
    (
        "[run]\ntransports = [\"tcp@eth\"]\n[expect]\ntcp@eth.completed = true",
        "15: tcp@eth.completed: the key needs quotes; write it as \"tcp@eth.completed\"",
    ),
];

const NOT_TOML: &str = "write key = \"value\", or key = 1, each key once and each text in quotes";

#[test]
fn each_mistake_has_its_message() {
    let mut wrong = Vec::new();
    let parameters: Vec<_> = PARAMETERS.iter().map(|parameter| parameter.key).collect();
    for (addition, message) in ONE_BY_ONE {
        let message = message.replace("PARAMETERS", &parameters.join(", ")).replace("NOT_TOML", NOT_TOML);
        let found = lines(&format!("{BASE}{addition}\n"));
        if found != [format!("mine.toml:{message}")] {
            wrong.push(format!("{addition}\n  gives  {}\n  not    {message}\n", found.join("\n         ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
