//! What `pathbench run` costs: connections over loopback, one after the other, and bulk data, beside `mptcpize run`
//! (`LD_PRELOAD`), sockets that the program itself makes as MPTCP, and plain TCP. The programs take turns.
//!
//! `cargo bench -p pathbench --bench run [-- ROUNDS]`; `mptcpize` is left out where it is not installed.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the benchmark prints its results")]

use pathbench_record::statistics::{median, quantile};
use pathbench_record::time::Clock as _;
use pathbench_testkit::{MonotonicClock, in_namespaces};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, ExitCode, Stdio};

/// The task of a child process: `NAME PROTOCOL`.
const TASK: &str = "PATHBENCH_BENCH_TASK";
const CONNECTIONS: usize = 4_000;
const BULK_BYTES: usize = 1 << 30;
const BLOCK_BYTES: usize = 128 * 1024;

/// How the program gets its sockets, and the words before its command.
struct Way {
    name: &'static str,
    protocol: &'static str,
    before: Vec<String>,
}

fn main() -> ExitCode {
    if let Ok(task) = std::env::var(TASK) {
        return child(&task);
    }
    in_namespaces(
        || pathbench_host::namespace::enter_lab(pathbench_host::namespace::Isolation::for_this_user()),
        || {
            let rounds = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(5_usize);
            let up =
                pathbench_host::netlink::RouteSocket::open().and_then(|mut socket| socket.set_loopback_up());
            match up.map_err(|error| error.to_string()).and_then(|()| compare(rounds)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("{error}");
                    ExitCode::FAILURE
                }
            }
        },
    )
}

fn compare(rounds: usize) -> Result<(), String> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let pathbench = env!("CARGO_BIN_EXE_pathbench");
    let mut ways = vec![
        Way { name: "plain TCP", protocol: "tcp", before: Vec::new() },
        Way { name: "MPTCP by the program", protocol: "mptcp", before: Vec::new() },
        Way { name: "pathbench run", protocol: "tcp", before: words(&[pathbench, "run", "--quiet", "--"]) },
    ];
    if Command::new("mptcpize").arg("--help").output().is_ok() {
        ways.push(Way { name: "mptcpize run", protocol: "tcp", before: words(&["mptcpize", "run"]) });
    } else {
        eprintln!("mptcpize is not installed (apt-get install mptcpize): left out");
    }
    let mut figures = vec![Vec::<[f64; 4]>::new(); ways.len()];
    for _ in 0..rounds {
        for (way, figures) in ways.iter().zip(&mut figures) {
            let connect = measure(way, "connect")?;
            let [bulk, ..] = measure(way, "bulk")?[..] else { return Err("no figure of bulk".to_owned()) };
            let [per_second, median_us, p99_us] = connect[..] else {
                return Err("figures are missing".to_owned());
            };
            figures.push([per_second, median_us, p99_us, bulk]);
        }
    }
    println!("medians of {rounds} rounds: connections/s, median µs, p99 µs of a connection, bulk Gbit/s");
    for (way, figures) in ways.iter().zip(&figures) {
        let of = |index: usize| {
            median(&figures.iter().map(|one| one[index]).collect::<Vec<_>>()).unwrap_or_default()
        };
        println!("{:22} {:8.0} {:8.1} {:8.1} {:8.2}", way.name, of(0), of(1), of(2), of(3));
    }
    Ok(())
}

/// Runs a task in a child process; the figures that it prints.
fn measure(way: &Way, task: &str) -> Result<Vec<f64>, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut words = way.before.iter().map(Into::into).chain([own.into_os_string()]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).env(TASK, format!("{task} {}", way.protocol)).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("{}: {error}", way.name))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    if figures.is_empty() { Err(format!("{}: {output:?}", way.name)) } else { Ok(figures) }
}

fn child(task: &str) -> ExitCode {
    let (name, protocol) = task.split_once(' ').unwrap_or((task, "tcp"));
    let done = if name == "bulk" { bulk(protocol) } else { connections(protocol) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{task}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn socket(protocol: &str) -> std::io::Result<Socket> {
    let protocol = if protocol == "mptcp" { Protocol::MPTCP } else { Protocol::TCP };
    Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))
}

fn listen(protocol: &str) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = socket(protocol)?;
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    listener.listen(128)?;
    let listener = TcpListener::from(listener);
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn connect(protocol: &str, address: SocketAddr) -> std::io::Result<TcpStream> {
    let client = socket(protocol)?;
    client.connect(&address.into())?;
    Ok(client.into())
}

/// Connections with a request and an answer of 100 bytes, one after the other.
fn connections(protocol: &str) -> std::io::Result<()> {
    let (listener, address) = listen(protocol)?;
    std::thread::spawn(move || {
        let mut request = [0; 100];
        while let Ok((mut connection, _)) = listener.accept() {
            let _ended = connection.read_exact(&mut request).and_then(|()| connection.write_all(&request));
        }
    });
    let mut times_us = Vec::with_capacity(CONNECTIONS);
    let begin = MonotonicClock.now();
    for _ in 0..CONNECTIONS {
        let begin = MonotonicClock.now();
        let mut connection = connect(protocol, address)?;
        let mut answer = [0; 100];
        connection.write_all(&answer)?;
        connection.read_exact(&mut answer)?;
        drop(connection);
        times_us.push(MonotonicClock.now().ms_from(begin) * 1e3);
    }
    let per_second = CONNECTIONS as f64 / (MonotonicClock.now().ms_from(begin) / 1e3);
    let [middle, slow] = [0.5, 0.99].map(|part| quantile(&times_us, part).unwrap_or_default());
    println!("{per_second} {middle} {slow}");
    Ok(())
}

/// Bulk data over one connection, in Gbit/s.
fn bulk(protocol: &str) -> std::io::Result<()> {
    let (listener, address) = listen(protocol)?;
    let begin = MonotonicClock.now();
    let sender = connect(protocol, address)?;
    let (mut receiver, _) = listener.accept()?;
    let sending = std::thread::spawn(move || {
        let (mut sender, block) = (sender, vec![0; BLOCK_BYTES]);
        (0..BULK_BYTES / BLOCK_BYTES).try_for_each(|_| sender.write_all(&block))
    });
    let mut block = vec![0; BLOCK_BYTES];
    while receiver.read(&mut block)? > 0 {}
    let seconds = MonotonicClock.now().ms_from(begin) / 1e3;
    sending.join().map_err(|_| std::io::Error::other("the sender panicked"))??;
    println!("{}", BULK_BYTES as f64 * 8.0 / seconds / 1e9);
    Ok(())
}
