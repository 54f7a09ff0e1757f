//! The question for consent: asked once, in words, on a terminal.

use super::settings::{Settings, SettingsFile};
use pathbench_api::consent::Consent;
use pathbench_api::name::Name;
use pathbench_program::exit::Failure;
use pathbench_program::output;
use std::io::{BufRead as _, IsTerminal as _, Read as _, stdin};

/// The decision in the file, in `given`, or of the user at the terminal. Nothing may leave this host without it.
pub(crate) fn load_decision(
    file: &mut SettingsFile,
    given: Option<Consent>,
    name: Option<&Name>,
) -> Result<Settings, Failure> {
    match (&file.settings, given) {
        (Some(settings), None) => Ok(settings.clone()),
        (Some(settings), Some(given)) if settings.consent == given => Ok(settings.clone()),
        (_, Some(given)) => file.decide(given, name).cloned(),
        (None, None) if stdin().is_terminal() && output::stderr_is_terminal() => {
            let answer = ask(&file.path.display().to_string())?;
            file.decide(answer, name).cloned()
        }
        (None, None) => Err(Failure::bad_input(format!(
            "nothing leaves this host without consent, and {} does not exist: decide with --consent none, private or \
             public, or run the command on a terminal",
            file.path.display()
        ))),
    }
}

/// As [`load_decision`], and that results may leave this host.
pub(crate) fn require_consent(
    file: &mut SettingsFile,
    given: Option<Consent>,
    name: Option<&Name>,
) -> Result<Settings, Failure> {
    let settings = load_decision(file, given, name)?;
    if settings.consent == Consent::None {
        return Err(Failure::bad_input(format!(
            "consent is `none`: results stay on this host; --consent private or public changes that, and is kept in {}",
            file.path.display()
        )));
    }
    Ok(settings)
}

fn ask(file: &str) -> Result<Consent, Failure> {
    let levels: Vec<String> =
        Consent::ALL.iter().map(|level| format!("  {level:<8} {}", level.words())).collect();
    output::note(format_args!(
        "May results of this host go to a collector?\n{}\nThe answer is kept in {file}, with a token that deletes the \
         results again (`pathbench submit --delete`).\nnone, private or public?",
        levels.join("\n")
    ));
    for _ in 0..3 {
        let mut answer = String::new();
        let read = stdin().lock().take(100).read_line(&mut answer);
        match (read, answer.trim().to_lowercase().parse::<Consent>()) {
            (Err(error), _) => return Err(Failure::failed(format!("cannot read the answer: {error}"))),
            (Ok(0), _) => break,
            (Ok(_), Ok(consent)) => return Ok(consent),
            (Ok(_), Err(_)) => output::note("none, private or public?"),
        }
    }
    Err(Failure::bad_input(
        "no answer, so nothing leaves this host; --consent none, private or public decides, too",
    ))
}
