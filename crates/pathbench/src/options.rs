//! Which options of a command differ from their defaults, by the names that clap knows: what a result records of its
//! command line.

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Map, Value};

/// Options that say which server is tested and where the result goes, not what is measured. The seed has a field of its
/// own in a result, and a token is a secret.
const NOT_RECORDED: [&str; 11] =
    ["port", "quic-port", "fingerprint", "ca", "token", "seed", "out", "json", "no-report", "quiet", "help"];

/// The options of the subcommand in `matches` that differ from their defaults: `--NAME` → value; several values as an
/// array, a switch as `true`.
pub(crate) fn given(command: &Command, matches: &ArgMatches) -> Map<String, Value> {
    let Some((name, matches)) = matches.subcommand() else { return Map::new() };
    let Some(command) = command.find_subcommand(name) else { return Map::new() };
    let options = command.get_arguments().filter_map(|option| {
        let long = option.get_long().filter(|long| !NOT_RECORDED.contains(long))?;
        Some((format!("--{long}"), value(option, matches)?))
    });
    options.collect()
}

/// The value of an option; `None` for its default.
fn value(option: &Arg, matches: &ArgMatches) -> Option<Value> {
    let id = option.get_id().as_str();
    if matches!(option.get_action(), ArgAction::SetTrue) {
        return matches.get_flag(id).then_some(Value::Bool(true));
    }
    let given: Vec<_> = matches.get_raw(id)?.collect();
    if given == option.get_default_values() {
        return None;
    }
    let texts: Vec<Value> = given.into_iter().map(|text| text.to_string_lossy().into()).collect();
    match <[Value; 1]>::try_from(texts) {
        Ok([text]) => Some(text),
        Err(texts) => Some(texts.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;
    use serde_json::json;

    fn given_with(arguments: &[&str]) -> Value {
        let mut command = Cli::command();
        let matches = command.try_get_matches_from_mut([&["pathbench"], arguments].concat()).unwrap();
        given(&command, &matches).into()
    }

    #[test]
    fn defaults_are_not_recorded_even_where_they_are_given() {
        for arguments in [
            &["test", "server"][..],
            &["test", "server", "--repeat", "3", "--duration", "7s", "--scheduler", "lowest-rtt"],
            &["roam", "server", "--patience", "30s", "--seed", "7", "--quiet", "--out", "here"],
            &["test", "server", "--token", "secret", "--port", "5000", "--quic-port", "5001", "--json"],
        ] {
            assert_eq!(given_with(arguments), json!({}), "{arguments:?}");
        }
    }

    #[test]
    fn what_differs_is_recorded_under_the_names_of_the_options() {
        let arguments =
            ["test", "server", "--repeat", "5", "--tls", "--transports", "tcp,mptcp", "--path", "eth0"];
        let expected =
            json!({ "--transports": ["tcp", "mptcp"], "--path": "eth0", "--repeat": "5", "--tls": true });
        let found = given_with(&arguments);
        assert_eq!(found.as_object().unwrap().len(), 4, "{found}");
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(found[name], *value, "{found}");
        }
        let backups = given_with(&["roam", "server", "--backup", "lte", "--backup", "sat", "--ipv4"]);
        assert_eq!(backups, json!({ "--backup": ["lte", "sat"], "--ipv4": true }));
    }

    #[test]
    fn what_is_not_recorded_is_an_option() {
        let mut command = Cli::command();
        command.build();
        let names: Vec<&str> = command
            .get_subcommands()
            .filter(|one| ["test", "roam"].contains(&one.get_name()))
            .flat_map(Command::get_arguments)
            .filter_map(Arg::get_long)
            .collect();
        for name in NOT_RECORDED {
            assert!(names.contains(&name), "--{name}: {names:?}");
        }
    }
}
