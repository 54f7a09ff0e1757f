//! `pathbench collect demo`: a collector, two test servers and three agents in a lab, until Ctrl-C.
//!
//! The collector runs in the lab, where the agents reach it, and accepts connections on a socket of this host as well, where
//! a browser reaches it: a socket stays in the network namespace in which it was made.

use super::options::{DemoArgs, StorageArgs};
use super::stores;
use data_encoding::HEXLOWER;
use pathbench_program::exit::{Exit, Failure};
use pathbench_program::random;
use pathbench_record::file;
use pathbench_record::time::SharedClock;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SCENARIO: &str = include_str!("campaign.toml");
const EXPERIMENTS: [(&str, &str); 2] =
    [("suite.toml", include_str!("suite.toml")), ("walk.toml", include_str!("walk.toml"))];

const AGENTS: [&str; 3] = ["anna", "ben", "cleo"];
const OPERATORS: [[(&str, &str); 2]; 3] = [
    [("wlan", "City Cafes"), ("lte", "Example Mobile")],
    [("wlan", "City Cafes"), ("lte", "Example Mobile")],
    [("wlan", "City Cafes"), ("leo", "Sky Link")],
];

/// The router's ends of the agents' Wi-Fi links.
const WIFI: [&str; 3] = ["aw", "bw", "cw"];
/// Name and addresses.
const SERVERS: [(&str, [&str; 2]); 2] =
    [("server1", ["10.20.1.2", "fd20:1::2"]), ("server2", ["10.20.2.2", "fd20:2::2"])];
/// Agents resolve the servers' names with a file of their own in place of /etc/hosts: a name has addresses of both IP
/// versions.
const WITH_HOSTS: &str = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
const COLLECTOR: &str = "10.20.3.2:8380";

/// How long a Wi-Fi stays, and how long it is away.
const WIFI_UP: Duration = Duration::from_secs(17);
const WIFI_DOWN: Duration = Duration::from_secs(6);

/// Time for a process to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(30);

const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A lab with its processes; its drop takes all down.
struct Demo {
    pathbench: PathBuf,
    dir: PathBuf,
    lab: String,
    is_up: bool,
    /// In the order of their start.
    children: Vec<(&'static str, Child)>,
}

pub(super) fn demo(
    storage: &StorageArgs,
    args: &DemoArgs,
    clock: &SharedClock,
    stop: &Arc<AtomicBool>,
    print: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let temporary;
    let dir = if let Some(dir) = &storage.dir {
        dir.clone()
    } else {
        temporary = tempfile::tempdir().map_err(Failure::failed)?;
        temporary.path().to_owned()
    };
    fs::create_dir_all(&dir).map_err(|error| Failure::failed(format!("{}: {error}", dir.display())))?;
    let listener = TcpListener::bind(args.listen)
        .map_err(|error| Failure::failed(format!("listening on {}: {error}", args.listen)))?;
    let address = listener.local_addr().map_err(Failure::failed)?;
    let lab = format!("collect-demo-{}", std::process::id());
    let mut demo = Demo { pathbench: pathbench()?, dir, lab, is_up: false, children: Vec::new() };
    demo.start(&listener, clock)?;
    drop(listener);
    print(&format!(
        "Dashboard  http://{address}/\nAgents     {}, each with two paths; data in {}\nEnd        Ctrl-C\n",
        AGENTS.join(", "),
        demo.dir.display()
    ));
    let ended = demo.run(args.duration.map(|time| time.0), stop);
    demo.end();
    ended
}

/// The program of the lab: beside this one, or in `$PATH`.
fn pathbench() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(Failure::failed)?;
    let beside = own.with_file_name("pathbench");
    if beside.exists() {
        return Ok(beside);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("pathbench")).find(|file| file.exists());
    found.ok_or_else(|| Failure {
        exit: Exit::HostCannot,
        message: "the demo needs `pathbench`: cargo install --path crates/pathbench --locked".to_owned(),
    })
}

/// An agent's file, with limits for the unmetered network of the lab.
fn configuration(agent: &str, operators: [(&str, &str); 2]) -> String {
    let id = uuid::Builder::from_random_bytes(random::bytes()).into_uuid();
    let token = HEXLOWER.encode(&random::bytes::<32>());
    let [(first, one), (second, other)] = operators;
    format!(
        "consent = \"public\"\nagent = \"{id}\"\nname = \"{agent}\"\ndeletion_token = \"{token}\"\n\n\
         [limits]\nmonth = \"10000GB\"\nexecution = \"100GB\"\nday = \"1000GB\"\nexecutions_per_day = 10000\n\
         shortest_interval = \"10s\"\nmetered = true\nservers = [\"10.20.0.0/16\", \"fd20::/16\"]\n\n\
         [operators]\n{first} = \"{one}\"\n{second} = \"{other}\"\n\n\
         [kinds]\n{first} = \"wifi\"\nlte = \"cellular\"\n"
    )
}

impl Demo {
    fn write(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let file = self.dir.join(name);
        file::replace(&file, text.as_bytes())
            .map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
        Ok(file)
    }

    fn start(&mut self, listener: &TcpListener, clock: &SharedClock) -> Result<(), Failure> {
        let scenario = self.write("campaign.toml", SCENARIO)?;
        let up = Command::new(&self.pathbench)
            .args(["lab", "up", "--name", &self.lab])
            .arg(&scenario)
            .stdout(Stdio::null())
            .status()
            .map_err(Failure::failed)?;
        if !up.success() {
            // The program has printed the reason.
            let exit = if up.code() == Some(7) { Exit::HostCannot } else { Exit::Failed };
            return Err(Failure { exit, message: "the lab does not start".to_owned() });
        }
        self.is_up = true;
        self.configure(clock)?;
        let own = std::env::current_exe().map_err(Failure::failed)?;
        let mut collector = self.command("collector", &own);
        collector.arg("--dir").arg(self.dir.join("collector"));
        collector.args(["--open", "--operator", "the demo", "--listen", COLLECTOR, "--listen-stdin"]);
        collector.stdin(OwnedFd::from(listener.try_clone().map_err(Failure::failed)?));
        self.spawn("collector", collector)?;
        let url = format!("http://{COLLECTOR}");
        self.start_servers(&url)?;
        self.start_agents(&url)
    }

    fn start_servers(&mut self, url: &str) -> Result<(), Failure> {
        for (server, [ipv4, ipv6]) in SERVERS {
            let mut serve = self.command(server, &self.pathbench);
            serve.args(["serve", "--quiet", "--listen", ipv4, "--listen", ipv6]);
            serve.arg("--token-key").arg(self.dir.join(format!("{server}.key")));
            serve.args(["--collector", url, "--collector-name", server]);
            self.spawn(server, serve)?;
        }
        Ok(())
    }

    fn start_agents(&mut self, url: &str) -> Result<(), Failure> {
        let names =
            SERVERS.map(|(server, [ipv4, ipv6])| format!("{ipv4} {server}.demo\n{ipv6} {server}.demo\n"));
        let hosts = self.write("hosts", &format!("127.0.0.1 localhost\n{}", names.concat()))?;
        for (agent, operators) in AGENTS.into_iter().zip(OPERATORS) {
            let home = self.dir.join(agent);
            fs::create_dir_all(&home).map_err(Failure::failed)?;
            let config = self.write(&format!("{agent}/collector.toml"), &configuration(agent, operators))?;
            let mut command = self.command(agent, Path::new("unshare"));
            command.args(["--mount", "sh", "-c", WITH_HOSTS]).args([&hosts, &self.pathbench]);
            command.args(["agent", url, "--config"]).arg(config);
            command.envs([("XDG_STATE_HOME", &home), ("HOME", &home)]);
            self.spawn(agent, command)?;
        }
        Ok(())
    }

    /// Registers servers and experiments, before the collector starts.
    fn configure(&self, clock: &SharedClock) -> Result<(), Failure> {
        let own = std::env::current_exe().map_err(Failure::failed)?;
        let dir = self.dir.join("collector");
        let storage = StorageArgs { dir: Some(dir.clone()), database: None, raw: None, secret: None };
        stores::create(&storage, clock)?;
        let run = |arguments: [&str; 2], configure: &dyn Fn(&mut Command)| {
            let mut command = Command::new(&own);
            configure(command.args(arguments));
            let status = command.arg("--dir").arg(&dir).stdout(Stdio::null()).status();
            if status.map_err(Failure::failed)?.success() {
                Ok(())
            } else {
                Err(Failure::failed("the collector's directory is not set up"))
            }
        };
        for (server, _) in SERVERS {
            let (key, address) = (self.dir.join(format!("{server}.key")), format!("{server}.demo:4433"));
            // A directory that is used again has it.
            let _ = fs::remove_file(&key);
            run(["server", "add"], &|add| {
                add.args([server, "--address", &address, "--key"]).arg(&key);
            })?;
        }
        for (name, text) in EXPERIMENTS {
            let file = self.write(name, text)?;
            run(["experiment", "put"], &|put| {
                put.arg(&file);
            })?;
        }
        Ok(())
    }

    /// A program in a host of the lab.
    fn command(&self, host: &str, program: &Path) -> Command {
        let mut command = Command::new(&self.pathbench);
        command.args(["lab", "exec", "--lab", &self.lab, host, "--"]).arg(program).stdin(Stdio::null());
        command
    }

    /// Starts a program; its messages go to a file of the demo's directory.
    fn spawn(&mut self, host: &'static str, mut command: Command) -> Result<(), Failure> {
        let file = self.dir.join(format!("{host}.log"));
        let log = file::create_anew(&file, 0o666)
            .map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
        let output = log.try_clone().map_err(Failure::failed)?;
        // Ctrl-C is for this process, which ends the others in their order.
        let child = command.process_group(0).stdout(output).stderr(log).spawn().map_err(Failure::failed)?;
        self.children.push((host, child));
        Ok(())
    }

    /// Takes the Wi-Fi links down and up in turn, until the end.
    fn run(&mut self, duration: Option<Duration>, stop: &AtomicBool) -> Result<(), Failure> {
        let mut left = duration.unwrap_or(Duration::MAX);
        let mut wait = |time: Duration, children: &mut Vec<(&'static str, Child)>| {
            let mut time = time.min(left);
            left -= time;
            while !time.is_zero() && !stop.load(Ordering::SeqCst) {
                for (host, child) in children.iter_mut() {
                    if let Some(status) = child.try_wait().map_err(Failure::failed)? {
                        return Err(Failure::failed(format!(
                            "{host} ended with {status}; its log has the reason"
                        )));
                    }
                }
                let slice = time.min(CHECK_INTERVAL);
                std::thread::sleep(slice);
                time -= slice;
            }
            Ok(left.is_zero() || stop.load(Ordering::SeqCst))
        };
        for interface in WIFI.iter().cycle() {
            if wait(WIFI_UP, &mut self.children)? {
                break;
            }
            self.set_link(interface, "down")?;
            let is_over = wait(WIFI_DOWN, &mut self.children);
            self.set_link(interface, "up")?;
            if is_over? {
                break;
            }
        }
        Ok(())
    }

    fn set_link(&self, interface: &str, state: &str) -> Result<(), Failure> {
        let status = self
            .command("internet", Path::new("ip"))
            .args(["link", "set", interface, state])
            .status()
            .map_err(Failure::failed)?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::failed(format!("ip link set {interface} {state} failed")))
        }
    }

    /// Agents first, then servers, then the collector.
    fn end(&mut self) {
        while let Some((_, mut child)) = self.children.pop() {
            // `lab exec` and the program that it runs.
            let group = Pid::from_child(&child);
            let _ = kill_process_group(group, Signal::TERM);
            let mut waited = Duration::ZERO;
            while waited < GRACE && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(CHECK_INTERVAL);
                waited += CHECK_INTERVAL;
            }
            let _ = kill_process_group(group, Signal::KILL);
            let _ = child.wait();
        }
        if std::mem::take(&mut self.is_up) {
            let down =
                Command::new(&self.pathbench).args(["lab", "down", &self.lab]).stdout(Stdio::null()).status();
            drop(down);
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.end();
    }
}
