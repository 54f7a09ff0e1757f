//! Every mistake is found, all at once, each with its place, what is wrong and what would be right.

use pathbench_lab::scenario::{Mistake, MistakeKind, Mistakes, Overrides, Source, plan};
use pathbench_link::PARAMETERS;

pathbench_kerneltest::privilege_independent!();

fn mistakes_with(text: &str, overrides: &Overrides) -> Mistakes {
    match plan(&Source::from_text("mine.toml", text), overrides) {
        Ok(_) => panic!("no mistake was found in\n{text}"),
        Err(mistakes) => mistakes,
    }
}

fn lines(text: &str) -> Vec<String> {
    mistakes_with(text, &Overrides::default()).to_string().lines().map(str::to_owned).collect()
}

/// A valid scenario of eleven lines, to which the tables below add theirs.
const BASE: &str = "name = \"mine\"\n[[path]]\nname = \"eth\"\nrate = \"1gbit\"\n[[path]]\nname = \"wlan\"\n\
                    rate = \"1gbit\"\n[[path]]\nname = \"lte\"\nrate = \"30mbit\"\n# line 11\n";

#[test]
fn all_mistakes_of_a_scenario_are_reported_at_once_with_their_lines() {
    let text = r#"description = "ten and more"
[[path]]
name = "eth"
rate = "50mbps"
dealy = "1ms"
[[path]]
name = "eth"
mtu = 40
client_address = "10.1.0.1/24"
server_address = "10.2.0.1/24"
[[path]]
name = "wlan0-at-the-office"
delay = 5
[[event]]
at = "12s"
path = "wlna"
action = "explode"
[run]
transports = ["tcp@wifi", "quick"]
duration = "10s"
repeat = 0
sample_interval = true
iperf.rate = 50mbit
[expect]
"mptcp.completed" = true
"#;
    let found = mistakes_with(text, &Overrides::default()).0;
    let place = |mistake: &Mistake| (mistake.line.expect("in the file"), mistake.key.clone());
    let places: Vec<_> = found.iter().map(place).collect();
    let expected = [
        (1, "name"),
        (4, "path.eth.rate"),
        (5, "path.eth.dealy"),
        (7, "path.eth.name"),
        (8, "path.eth.mtu"),
        (9, "path.eth.client_address"),
        (12, "path.wlan0-at-the-office.name"),
        (13, "path.wlan0-at-the-office.delay"),
        (15, "event.0.at"),
        (16, "event.0.path"),
        (17, "event.0.action"),
        (19, "run.transports"),
        (19, "run.transports"),
        (21, "run.repeat"),
        (22, "run.sample_interval"),
        (23, "iperf.rate"),
        (25, "expect.\"mptcp.completed\""),
    ];
    assert_eq!(places, expected.map(|(line, key)| (line, key.to_owned())), "{}", Mistakes(found));
    assert!(found.iter().all(|mistake| !mistake.problem.is_empty() && !mistake.remedy.is_empty()));
    let mut kinds: Vec<_> = found.iter().map(|mistake| format!("{:?}", mistake.kind)).collect();
    kinds.sort();
    kinds.dedup();
    assert_eq!(
        kinds,
        ["Conflict", "Duplicate", "Missing", "Reference", "Syntax", "Type", "UnknownKey", "Value"]
    );
}

/// What is appended to [`BASE`] (line 12 on), and the one mistake in it. `PARAMETERS` stands for the keys of all of them.
const ONE_BY_ONE: &[(&str, &str)] = &[
    // Keys
    (
        "[run]\ndurration = \"3s\"",
        "mine.toml:13: run.durration: run has no key `durration`; did you mean `duration`? known are \
         transports, pattern, duration, repeat, seed, sample_interval, lateness_tolerance, packet_sizes, \
         client, server, family, tls, congestion, patience, ping, bulk, iperf, interactive, quic",
    ),
    (
        "[paths]",
        "mine.toml:12: paths: a scenario has no key `paths`; did you mean `path`? known are name, description, \
         path, link, host, router, event, run, expect, matrix",
    ),
    (
        "[[event]]\nat = \"1s\"\naction = \"down\"",
        "mine.toml:12: event.0.path: is missing; add path = \"eth\"",
    ),
    ("[[path]]\nrate = \"1mbit\"", "mine.toml:12: path.3.name: is missing; add name = \"path\""),
    (
        "[[link]]\nname = \"x\"",
        "mine.toml:12: link.x.ends: is missing; add ends = [\"client:eth\", \"server:eth\"]",
    ),
    // Types
    (
        "[run]\ntransports = 3",
        "mine.toml:13: run.transports: a number is not a text or a list of texts; give a text or a list of texts, \
         as in transports = [\"mptcp\"]",
    ),
    (
        "[run]\nrepeat = \"3\"",
        "mine.toml:13: run.repeat: a text is not a whole number without quotes; give a whole number without quotes, \
         as in repeat = 1",
    ),
    (
        "run = 3",
        "mine.toml:12: path.lte.run: a path has no key `run`; known are name, PARAMETERS, backup, weight, engine, \
         tolerance, capture, preset, upload, download, client_address, server_address, path_mtu, icmp, clamp_mss",
    ),
    ("[event]\nat = \"1s\"", "mine.toml:12: event: [event] is a single table; write [[event]]"),
    // Quantities
    (
        "delay = \"1\"",
        "mine.toml:12: path.lte.delay: `1` has no unit; give a number with us, ms, s, m (minutes), h or d, as in \"10ms\"",
    ),
    (
        "delay = 1",
        "mine.toml:12: path.lte.delay: `1` has no unit; give a number with us, ms, s, m (minutes), h or d, as in \"10ms\"",
    ),
    ("delay = \"2m\"", "mine.toml:12: path.lte.delay: `2m` is out of range; give \"0s\" to \"1m\""),
    (
        "loss = \"0.5\"",
        "mine.toml:12: path.lte.loss: `0.5` has no unit; give a percentage with its sign, as in \"0.1%\"",
    ),
    (
        "queue = 200",
        "mine.toml:12: path.lte.queue: `200` has no unit; give a time at the link's rate (\"100ms\"), a number of \
         packets (\"200p\") or bytes (\"256kB\")",
    ),
    (
        "queue = \"1kB\"",
        "mine.toml:12: path.lte.queue: the queue `1kB` does not hold one packet of 1500 bytes; give at least \
         \"1514B\" or \"1p\"",
    ),
    ("mtu = 70000", "mine.toml:12: path.lte.mtu: `70000` is out of range; give 68 to 65535"),
    (
        "jitter = \"2ms\"",
        "mine.toml:12: path.lte.jitter: the jitter is larger than the delay; give a delay at least as large: no \
         packet arrives before it is sent",
    ),
    (
        "upload = { rate = \"1kbit\" }",
        "mine.toml:12: path.lte.upload.rate: `1kbit` is out of range; give \"8kbit\" to \"100gbit\"",
    ),
    (
        "engine = \"kernal\"",
        "mine.toml:12: path.lte.engine: `kernal` is not one of its values; did you mean `kernel`? known are auto, \
         kernel, emulated",
    ),
    // Addresses
    (
        "client_address = \"10.0.0.1\"",
        "mine.toml:12: path.lte.client_address: `10.0.0.1` has no prefix length; append it, as in \
         \"192.168.1.2/24\" or \"fd00:1::2/64\"",
    ),
    (
        "client_address = \"10.0.0.0/24\"",
        "mine.toml:12: path.lte.client_address: `10.0.0.0/24` is the address of the network itself; give the \
         address of a host",
    ),
    (
        "client_address = \"10.0.0.1/32\"",
        "mine.toml:12: path.lte.client_address: /32 will not do for a link; give /8 to /31: both ends must fit in",
    ),
    (
        "client_address = \"10.0.0.1/24\"\nserver_address = \"10.0.1.1/24\"",
        "mine.toml:12: path.lte.client_address: 10.0.0.1/24 and 10.0.1.1/24 at `server` are not in one subnet; give \
         both ends addresses of one subnet, 10.0.0.0/24 for example",
    ),
    (
        "client_address = \"10.0.0.1/24\"\nserver_address = \"fd00::1/64\"",
        "mine.toml:12: path.lte.client_address: 10.0.0.1/24 has no counterpart: `server` has no IPv4 address; give \
         both ends addresses of the same IP version",
    ),
    (
        "client_address = \"10.0.0.1/24\"\nserver_address = \"10.0.0.1/24\"",
        "mine.toml:13: path.lte.server_address: `client` already has the address 10.0.0.1; give another",
    ),
    (
        "client_address = \"10.83.1.7/24\"",
        "mine.toml:12: path.lte.client_address: the subnet 10.83.1.0/24 overlaps with 10.83.1.0/24 of `wlan`; give \
         each link a subnet of its own",
    ),
    (
        "client_address = \"fd00::7/64\"",
        "mine.toml:12: path.lte.client_address: `lte` has no IPv4 address, which the run uses; give it one, or set \
         run.family = \"ipv6\"",
    ),
    (
        "client_address = \"10.9.0.1/24\"\n[run]\nfamily = \"ipv6\"\ntransports = [\"mptcp\", \"tcp@lte\"]",
        "mine.toml:15: run.transports: `tcp@lte`: `lte` has no IPv6 address; give the path one, or leave this \
         transport out",
    ),
    (
        "mtu = 1000\n[run]\nfamily = \"ipv6\"",
        "mine.toml:12: path.lte.mtu: an MTU of 1000 is too small for the IPv6 address fd83:0:0:2::1; give at least \
         1280 (RFC 8200), or IPv4 addresses only",
    ),
    // Names
    (
        "[[path]]\nname = \"eth\"",
        "mine.toml:13: path.eth.name: the name `eth` is already taken on line 3; choose another",
    ),
    (
        "[[path]]\nname = \"a/b\"",
        "mine.toml:13: path.a/b.name: `a/b` will not do as the name of a path or link; give 1 to 15 letters, digits, \
         `-` and `_`, the first a letter or digit",
    ),
    (
        "[[path]]\nname = \"lo\"",
        "mine.toml:13: path.lo.name: `lo` is reserved; choose another; lo, all and default mean something to the \
         kernel",
    ),
    (
        "[[link]]\nname = \"x\"\nends = [\"client:eth\", \"server:x\"]",
        "mine.toml:14: link.x.ends.0: `client` already has an interface `eth`, of `eth`; name this one differently",
    ),
    (
        "[[link]]\nname = \"x\"\nends = [\"client:x\", \"servr:x\"]",
        "mine.toml:14: link.x.ends.1: there is no host or router `servr`; declare it with [[host]] or [[router]], or \
         correct it: did you mean `server`? known are client, server",
    ),
    (
        "[[link]]\nname = \"x\"\nends = [\"client\", \"server:x\"]",
        "mine.toml:14: link.x.ends.0: `client` does not name a host and its interface; write \"HOST:INTERFACE\", as \
         in \"client:eth\"",
    ),
    (
        "[[link]]\nname = \"x\"\nends = [\"client:x\", \"client:y\"]",
        "mine.toml:14: link.x.ends.1: both ends are at `client`; link two different nodes",
    ),
    (
        "[host.clinet.sysctl]\n\"net.ipv4.tcp_mtu_probing\" = 1",
        "mine.toml:12: host.clinet: `clinet` has no link; link it, or correct its name: did you mean `client`? known \
         are client, server",
    ),
    // Hosts
    (
        "[host.client.sysctl]\n\"kernel.hostname\" = \"x\"",
        "mine.toml:13: host.client.sysctl.kernel.hostname: `kernel.hostname` does not belong to a lab host; give one \
         that begins with net.; the others belong to the whole machine",
    ),
    (
        "[host.client.sysctl]\n\"net/../../etc.passwd\" = 1",
        "mine.toml:13: host.client.sysctl.net/../../etc.passwd: `net/../../etc.passwd` is not the name of a sysctl; \
         give its dotted name, as in \"net.ipv4.tcp_mtu_probing\"",
    ),
    (
        "[host.client.mptcp]\nsubflows = 9",
        "mine.toml:13: host.client.mptcp.subflows: `9` is out of range; give 0 to 8",
    ),
    (
        "[host.client.mptcp]\nendpoints = [{ path = \"wlna\", flags = [\"subflow\"] }]",
        "mine.toml:13: host.client.mptcp.endpoints.0.path: there is no path or link at `client` `wlna`; did you mean \
         `wlan`? known are eth, wlan, lte",
    ),
    (
        "[host.client.mptcp]\nendpoints = [{ path = \"wlan\", flags = [\"fullmash\"] }]",
        "mine.toml:13: host.client.mptcp.endpoints.0.flags: `fullmash` is not a flag of an endpoint; did you mean \
         `fullmesh`? known are subflow, signal, backup, fullmesh",
    ),
    (
        "[host.server.mptcp]\nendpoints = [{ address = \"10.83.0.1\", flags = [\"signal\"] }]",
        "mine.toml:13: host.server.mptcp.endpoints.0.address: `10.83.0.1` is not an address of `server`; its \
         addresses are 10.83.0.2, 10.83.1.2, 10.83.2.2",
    ),
    (
        "[host.client]\nroutes = [{ to = \"default\", via = \"10.83.0.9\" }]",
        "mine.toml:13: host.client.routes.0.via: `10.83.0.9` is no neighbour of `client`; its neighbours are \
         10.83.0.2, 10.83.1.2, 10.83.2.2",
    ),
    // Events
    (
        "[[event]]\nat = \"10s\"\npath = \"eth\"\naction = \"down\"",
        "mine.toml:13: event.0.at: the event comes at 10s, but the run ends at 10s; give an earlier time, or a longer \
         run.duration",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"down\"\nhost = \"router\"",
        "mine.toml:16: event.0.host: there is no end of `eth` at `router`; known are client, server",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"down\"\nloss = \"1%\"",
        "mine.toml:16: event.0.loss: the action `down` changes no loss; remove it, or make the action \"set\"",
    ),
    (
        "[[event]]\nat = \"1s\"\npath = \"eth\"\naction = \"set\"",
        "mine.toml:15: event.0.action: `set` without anything to set; give what to set: PARAMETERS, path_mtu, icmp, clamp_mss",
    ),
    // Runs
    (
        "[run]\ntransports = [\"tcp\", \"mtcp\"]",
        "mine.toml:13: run.transports: `mtcp` is not a transport; did you mean `mptcp`? available are tcp, mptcp, \
         quic and mpquic, each also with @PATH or @*",
    ),
    (
        "[run]\ntransports = [\"mpquic@wifi\"]",
        "mine.toml:13: run.transports: `mpquic@wifi`: the client has no path `wifi`; known are eth, wlan, lte",
    ),
    (
        "[run]\npattern = \"iprf\"",
        "mine.toml:13: run.pattern: `iprf` is not a pattern; did you mean `iperf`? known are iperf, ping, bulk, \
         interactive, suite, iperf-upload, iperf-download",
    ),
    (
        "[run]\npattern = [\"ping\", \"suite\"]",
        "mine.toml:13: run.pattern: `suite` holds `ping`, which is there already; remove one; run.repeat says how often \
         each runs",
    ),
    (
        "[run]\npattern = []",
        "mine.toml:13: run.pattern: names no pattern; give some, as in [\"ping\", \"iperf\"]",
    ),
    (
        "[run]\nping.counts = 3",
        "mine.toml:13: run.ping.counts: run.ping has no key `counts`; did you mean `count`? known are count, warm_up, \
         interval, request, response, timeout",
    ),
    (
        "[run]\nbulk.bytes = 0",
        "mine.toml:13: run.bulk.bytes: nothing goes either way; give the bytes to download (bytes), those to upload, \
         or both",
    ),
    (
        "[run]\nbulk.upload = \"2000GB\"",
        "mine.toml:13: run.bulk.upload: `2000GB` is out of range; give 0 to \"1024GiB\"",
    ),
    (
        "[run]\nduration = \"1s\"\npattern = \"interactive\"\ninteractive.interval = \"2s\"",
        "mine.toml:15: run.interactive.interval: the run is over before the second request; give less than run.duration",
    ),
    (
        "[run]\nduration = \"2m\"\npattern = \"interactive\"\ninteractive.interval = \"1ms\"",
        "mine.toml:15: run.interactive.interval: 120000 requests each way are more than a run can record, which is 36000; \
         give a longer interval, or a shorter run.duration",
    ),
    (
        "[run]\nquic.scheduler = \"lowest_rtt\"",
        "mine.toml:13: run.quic.scheduler: `lowest_rtt` is not one of its values; did you mean `lowest-rtt`? known are \
         lowest-rtt, round-robin, weighted, backup",
    ),
    (
        "[run]\nquic.srtt_above = \"100ms\"",
        "mine.toml:13: run.quic.srtt_above: the scheduler `lowest-rtt` has no threshold; remove it, or make the scheduler \
         \"backup\"",
    ),
    (
        "[run]\nquic.silence = \"50ms\"",
        "mine.toml:13: run.quic.silence: a healthy path is silent between two heartbeats; give more than \
         run.quic.heartbeat, several times that to tolerate a loss",
    ),
    (
        "[run]\nquic.congestion = \"reno\"",
        "mine.toml:13: run.quic.congestion: `reno` is not one of its values; known are cubic, newreno, bbr3",
    ),
    ("weight = 0", "mine.toml:12: path.lte.weight: `0` is out of range; give 1 to 1000"),
    (
        "[run]\ntransports = [\"tcp@wifi\"]",
        "mine.toml:13: run.transports: `tcp@wifi`: the client has no path `wifi`; known are eth, wlan, lte",
    ),
    (
        "[run]\ntransports = [\"tcp@eth\", \"tcp@*\"]",
        "mine.toml:13: run.transports: `tcp@eth` is there twice; remove one; run.repeat says how often each runs",
    ),
    (
        "[run]\nduration = \"3s\"\niperf.bytes = \"1GB\"",
        "mine.toml:13: run.duration: the run ends by time or by run.iperf.bytes, not both; remove one of the two",
    ),
    (
        "[run]\niperf.omit = \"10s\"",
        "mine.toml:13: run.iperf.omit: the warm-up takes all of the run; give less than run.duration",
    ),
    (
        "[run]\nserver = \"client\"",
        "mine.toml:13: run.server: client and server are the same host; name two hosts",
    ),
    (
        "[run]\nclient = \"laptop\"",
        "mine.toml:13: run.client: there is no host `laptop`; name one of the hosts as run.client: client, server",
    ),
    (
        "[[router]]\nname = \"a\"\n[[host]]\nname = \"far\"\n[[link]]\nname = \"x\"\nends = [\"far:x\", \"a:x\"]\n\
         [run]\nserver = \"far\"",
        "mine.toml:20: run.server: nothing links `client` with `far`; link them, directly or over routers (hosts do \
         not forward)",
    ),
    // Matrix
    (
        "[matrix]\n\"path.wlam.rate\" = [\"1mbit\"]",
        "mine.toml:13: matrix.path.wlam.rate: there is no path `wlam`; did you mean `wlan`? known are eth, wlan, lte",
    ),
    (
        "[matrix]\n\"path.wlan.rate\" = [\n  \"1mbit\",\n  \"2mbps\",\n]",
        "mine.toml:15: path.wlan.rate: `2mbps` has the unit `mbps`, which is unknown or ambiguous; give a number with \
         bit, kbit, mbit or gbit (per second), as in \"50mbit\"",
    ),
    (
        "[matrix]\n\"path.wlan.raet\" = [\"1mbit\"]",
        "mine.toml:13: path.wlan.raet: a path has no key `raet`; did you mean `rate`? known are name, \
         PARAMETERS, backup, weight, engine, \
         tolerance, capture, preset, upload, download, client_address, server_address, path_mtu, icmp, clamp_mss",
    ),
    (
        "[matrix]\n\"run.seed\" = [1, 2]",
        "mine.toml:13: matrix.run.seed: `run.seed` holds for the whole scenario and cannot vary; vary keys of paths, \
         links, hosts, events or run",
    ),
    (
        "[matrix]\n\"run.duration\" = \"3s\"",
        "mine.toml:13: matrix.run.duration: a text is not a list of values; give the values to go through, as in \
         [0, 1, 2]",
    ),
    (
        "[matrix]\n\"path.eth.mtu\" = [1500, 1500]",
        "mine.toml:13: matrix.path.eth.mtu: `1500` is there twice; remove one; run.repeat says how often each runs",
    ),
    // Expectations
    ("[path]\nname = \"x\"", "mine.toml:12: there are several [[path]]; write [[path]] here too"),
    (
        "[host]\nname = \"client\"",
        "mine.toml:12: host: [host] is a single table; write [[host]], or [host.NAME] without a name",
    ),
    (
        "[expect]\n\"mptcp.stal_ms\" = \"< 5\"",
        "mine.toml:13: expect.\"mptcp.stal_ms\": a run has no field `stal_ms`; did you mean `stall_ms`?",
    ),
    (
        "[expect]\n\"mptcp.paths.wlan.shares\" = \"< 5\"",
        "mine.toml:13: expect.\"mptcp.paths.wlan.shares\": a run has no field `paths.wlan.shares`; did you mean \
         `paths.wlan.share`?",
    ),
    (
        "[expect]\n\"mptcp.paths.wifi.share\" = \"< 5\"",
        "mine.toml:13: expect.\"mptcp.paths.wifi.share\": there is no path or link `wifi`; known are eth, wlan, lte",
    ),
    (
        "[expect]\n\"tcp@eth.completed\" = true",
        "mine.toml:13: expect.\"tcp@eth.completed\": `tcp@eth` is not among the transports of the run; known are tcp, \
         mptcp",
    ),
    (
        "[expect]\n\"mptcp.stall_ms\" = \"< 500ms\"",
        "mine.toml:13: expect.\"mptcp.stall_ms\": `< 500ms` cannot be compared with it; give a number, or a \
         comparison with one, as in \"< 500\" (its unit is in the field's name)",
    ),
    (
        "[expect]\n\"mptcp.completed\" = \"yes\"",
        "mine.toml:13: expect.\"mptcp.completed\": `yes` cannot be compared with it; give true or false without quotes",
    ),
    (
        "[expect]\n\"median(mptcp.completed)\" = \"> 1\"",
        "mine.toml:13: expect.\"median(mptcp.completed)\": `mptcp.completed` is not a number, so it has no median; \
         compare it without median( )",
    ),
    (
        "[expect]\n\"mptcp.stall_ms\" = { is = \"< 5\", when = { \"path.eth.mtu\" = 1500 } }",
        "mine.toml:13: expect.\"mptcp.stall_ms\": `when` fits no variant of the matrix; name keys of [matrix] and \
         values that they have there",
    ),
    // Text that is not TOML
    ("delay = ", "mine.toml:12: delay: the key has no value; give it one, or remove the key"),
    ("delay 1", "mine.toml:12: this is not TOML: key with no value; here belongs `=`"),
    ("delay = \"1ms", "mine.toml:12: delay: the text has no closing quote; end it with \""),
    ("delay = 1ms", "mine.toml:12: delay: `1ms` has no quotes; write it as \"1ms\""),
    ("rate = \"2gbit\"", "mine.toml:12: rate: `rate` is given twice; remove one of the two"),
    (
        "[run]\ntransports = [\"tcp\"\nduration = \"3s\"",
        "mine.toml:14: duration: this is not TOML: missing comma between array elements; here belongs `,`",
    ),
    (
        "[run]\ntransports = [\"tcp@eth\"]\n[expect]\ntcp@eth.completed = true",
        "mine.toml:15: tcp@eth.completed: the key needs quotes; write the key in quotes, as in \
         \"tcp@wlan.completed\" = true",
    ),
];

#[test]
fn each_mistake_has_its_message() {
    let mut wrong = Vec::new();
    let parameters: Vec<_> = PARAMETERS.iter().map(|parameter| parameter.key).collect();
    for (addition, message) in ONE_BY_ONE {
        let message = message.replace("PARAMETERS", &parameters.join(", "));
        let found = lines(&format!("{BASE}{addition}\n"));
        if found != [message.as_str()] {
            wrong.push(format!("{addition}\n  gives  {}\n  not    {message}\n", found.join("\n         ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_empty_scenario_lacks_a_name_and_a_path() {
    assert_eq!(
        lines(""),
        [
            "mine.toml:1: name: is missing; add name = \"failover\"",
            "mine.toml:1: path: the scenario has no path; add a [[path]] with a name, as in name = \"eth\"",
        ]
    );
}

#[test]
fn the_name_of_a_scenario_is_fit_for_a_directory_and_messages_for_a_terminal() {
    assert_eq!(
        lines("name = \"../x\\u001b[2J\"\ndescription = \"a\\nb\"\n[[path]]\nname = \"eth\"\n"),
        [
            "mine.toml:1: name: `../x\\u{1b}[2J` will not do as the name of a scenario; give 1 to 64 letters, digits, `-`, \
         `_` and `.`, the first a letter or digit",
            "mine.toml:2: description: the description is more than one line of text; put the rest into comments (# …)",
        ]
    );
}

#[test]
fn text_that_is_not_toml_does_not_hide_other_mistakes() {
    assert_eq!(
        lines(&format!("{BASE}delay = 1sec\nmtu = 1\n[run\nrepeat = 0\n")),
        [
            "mine.toml:12: delay: `1sec` has no quotes; write it as \"1sec\"",
            "mine.toml:12: path.lte.delay: `1sec` has the unit `sec`, which is unknown or ambiguous; give a number with \
         us, ms, s, m (minutes), h or d, as in \"10ms\"",
            "mine.toml:13: path.lte.mtu: `1` is out of range; give 68 to 65535",
            "mine.toml:14: this is not TOML: unclosed table; here belongs `]`",
            "mine.toml:15: run.repeat: `0` is out of range; give 1 to 10000",
        ]
    );
}

#[test]
fn mistakes_of_the_command_line_name_their_option() {
    let set = [
        ("path.wlan.rate", "50"),
        ("path.wlna.rate", "50mbit"),
        ("run.durration", "3s"),
        ("event.0.at", "3s"),
        ("name.x", "3s"),
        ("a..b", "3s"),
        ("host.cleint.mptcp.subflows", "1"),
    ];
    let overrides = Overrides {
        set: set.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        transports: Some(vec!["tcp".to_owned(), "quick".to_owned()]),
        repeat: Some(0),
        seed: Some(u64::MAX),
        duration: Some("ten seconds".to_owned()),
    };
    let mut found: Vec<_> =
        mistakes_with(BASE, &overrides).0.into_iter().map(|mistake| (mistake.file, mistake.key)).collect();
    found.sort();
    assert_eq!(
        found,
        [
            ("--duration ten seconds".to_owned(), "run.duration".to_owned()),
            ("--repeat 0".to_owned(), "run.repeat".to_owned()),
            ("--set a..b=3s".to_owned(), "a..b".to_owned()),
            ("--set event.0.at=3s".to_owned(), "event.0.at".to_owned()),
            ("--set host.cleint.mptcp.subflows=1".to_owned(), "host.cleint".to_owned()),
            ("--set name.x=3s".to_owned(), "name.x".to_owned()),
            ("--set path.wlan.rate=50".to_owned(), "path.wlan.rate".to_owned()),
            ("--set path.wlna.rate=50mbit".to_owned(), "path.wlna.rate".to_owned()),
            ("--set run.durration=3s".to_owned(), "run.durration".to_owned()),
            ("--transports tcp,quick".to_owned(), "run.transports".to_owned()),
        ]
    );
}

#[test]
fn the_variants_of_a_matrix_share_one_report() {
    let text = format!("{BASE}mtu = 1\n[matrix]\n\"path.eth.mtu\" = [1400, 1500, 9000]\n");
    assert_eq!(lines(&text), ["mine.toml:12: path.lte.mtu: `1` is out of range; give 68 to 65535"]);
}

#[test]
fn a_matrix_of_too_many_combinations_is_refused() {
    let values = (0..50).map(|number| (1_400 + number).to_string()).collect::<Vec<_>>().join(", ");
    let text = format!("{BASE}[matrix]\n\"path.eth.mtu\" = [{values}]\n\"path.lte.mtu\" = [{values}]\n");
    let mistakes = mistakes_with(&text, &Overrides::default()).0;
    assert_eq!(mistakes.len(), 1);
    assert_eq!((mistakes[0].kind, mistakes[0].line), (MistakeKind::Value, Some(12)));
    assert_eq!(mistakes[0].problem, "50 × 50 values make too many combinations");
}
