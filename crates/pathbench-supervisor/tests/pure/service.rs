//! Changes of a systemd unit that start its program under `pathbench run`. Each was tried with systemd 252: with
//! Type=notify, exec, simple and forking with `PIDFile=` (nginx of Debian 12) the service starts, reloads and stops as without them.

use pathbench_supervisor::service::{ServiceUnit, UnitFiles};

const PROGRAM: &str = "/usr/local/bin/pathbench";

fn nginx() -> ServiceUnit {
    ServiceUnit { unit: "nginx.service".to_owned(), is_of_user: false }
}

fn remedies(settings: &[&str]) -> Vec<String> {
    let texts = settings.iter().map(|text| format!("[Unit]\nType=oneshot\n[Service]\n{text}\n")).collect();
    nginx().remedies(&UnitFiles { texts, ..UnitFiles::default() }, PROGRAM)
}

#[test]
fn the_control_group_names_the_service() {
    let found = |path: &str| ServiceUnit::parse(&format!("1:name=systemd:/x\n0::{path}\n"));
    let service = |unit: &str, is_of_user| Some(ServiceUnit { unit: unit.to_owned(), is_of_user });
    assert_eq!(found("/system.slice/nginx.service"), service("nginx.service", false));
    assert_eq!(found("/system.slice/system-php.slice/php@8.service/worker"), service("php@8.service", false));
    assert_eq!(found("/user.slice/user-0.slice/session-1.scope"), None);
    let user = "/user.slice/user-1000.slice/user@1000.service";
    assert_eq!(found(&format!("{user}/init.scope")), None);
    assert_eq!(found(&format!("{user}/app.slice/syncthing.service")), service("syncthing.service", true));
    let remedies = found(&format!("{user}/app.slice/syncthing.service"))
        .unwrap()
        .remedies(&UnitFiles::default(), PROGRAM);
    assert_eq!(remedies.len(), 1);
    assert!(remedies[0].starts_with("systemctl --user edit syncthing.service"), "{remedies:?}");
}

/// Regression: the advice said to edit `ExecStart=`, which a drop-in adds to instead of replacing it.
#[test]
fn the_command_of_the_unit_is_replaced_by_itself_under_run() {
    let lines = |command: &str, rest: &str| {
        format!(
            "systemctl edit nginx.service, with these lines, then systemctl restart nginx.service:\n    [Service]\n    \
             ExecStart=\n    ExecStart={command}{rest}"
        )
    };
    let run = "/usr/local/bin/pathbench run --quiet --";
    for (settings, expected) in [
        (
            &["ExecStart=/usr/sbin/nginx -g 'daemon off;'"][..],
            lines(&format!("{run} /usr/sbin/nginx -g 'daemon off;'"), ""),
        ),
        // Prefixes stay in front, and the command of a drop-in replaces that of the file.
        (
            &["ExecStart=/usr/sbin/old", "ExecStart=\nExecStart=-!/usr/sbin/sshd -D $SSHD_OPTS"],
            lines(&format!("-!{run} /usr/sbin/sshd -D $SSHD_OPTS"), ""),
        ),
        (&["ExecStart=/usr/bin/a \\\n# comment\n  --b"], lines(&format!("{run} /usr/bin/a  --b"), "")),
        // seccomp(2) is not in @system-service.
        (
            &["ExecStart=/usr/bin/a\nSystemCallFilter=@system-service\nSystemCallFilter=~@privileged"],
            lines(&format!("{run} /usr/bin/a"), "\n    SystemCallFilter=seccomp"),
        ),
        (&["ExecStart=/usr/bin/a\nSystemCallFilter=~@mount"], lines(&format!("{run} /usr/bin/a"), "")),
        // As of mptcpd: the process that answers the program's calls is of the same user.
        (&["ExecStart=/usr/bin/a\nLimitNPROC=1"], lines(&format!("{run} /usr/bin/a"), "\n    LimitNPROC=3")),
        (
            &["Type=forking\nPIDFile=/run/a.pid\nExecStart=/usr/bin/a"],
            lines(&format!("{run} /usr/bin/a"), ""),
        ),
    ] {
        assert_eq!(remedies(settings), [expected], "{settings:?}");
    }
    let odd = nginx().remedies(
        &UnitFiles { texts: vec!["[Service]\nExecStart=/bin/a\n".to_owned()], ..UnitFiles::default() },
        "/opt/my tools/pathbench",
    );
    assert!(odd[0].contains("ExecStart=\"/opt/my tools/pathbench\" run --quiet -- /bin/a"), "{odd:?}");
}

/// systemd finds no main process among two, so that reload fails: seen with systemd 252.
#[test]
fn a_forking_service_without_a_pid_file_gets_a_hint() {
    for (settings, has_hint) in [
        ("Type=forking\nExecStart=/usr/bin/a", true),
        ("Type=forking\nPIDFile=/run/a.pid\nExecStart=/usr/bin/a", false),
        ("Type=notify\nExecStart=/usr/bin/a", false),
        ("ExecStart=/usr/bin/a", false),
    ] {
        let found = remedies(&[settings]);
        assert_eq!(found[0].contains("Add PIDFile="), has_hint, "{settings}: {found:?}");
    }
}

#[test]
fn a_command_that_cannot_be_replaced_is_described() {
    for settings in [&["ExecStart=@/usr/bin/a b"][..], &["ExecStart=/bin/a\nExecStart=/bin/b"], &[]] {
        let found = remedies(settings);
        assert!(
            found[0].contains("edit nginx.service: put `/usr/local/bin/pathbench run --quiet --`"),
            "{found:?}"
        );
    }
}

/// Socket units make MPTCP sockets from systemd 257 on.
#[test]
fn a_socket_unit_gets_the_remedy_of_its_version() {
    let found = |version| {
        let files = UnitFiles { has_socket: true, version, ..UnitFiles::default() };
        nginx().remedies(&files, PROGRAM)[0].clone()
    };
    assert!(
        found(Some(257))
            .starts_with("systemctl edit nginx.socket, with the lines [Socket] and SocketProtocol=mptcp")
    );
    let old = found(Some(252));
    assert!(!old.contains("edit") && old.contains("systemctl disable --now nginx.socket"), "{old}");
    assert!(found(None).starts_with("systemd 257 or newer, if nginx.socket passes the listening socket"));
    assert!(!remedies(&["ExecStart=/bin/a"]).iter().any(|remedy| remedy.contains("nginx.socket")));
}
