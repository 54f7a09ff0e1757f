//! `GET /v1/privacy`: kept data, retention, readers.

use crate::maintenance::{AGENTS_KEPT, LIVE_KEPT};
use pathbench_api::consent::Consent;
use pathbench_record::text::duration;
use std::fmt::Write as _;
use std::time::Duration;

/// The text for the collector's settings.
pub(super) fn text(operator: Option<&str>, retention: Option<Duration>, is_open: bool) -> String {
    let mut text = String::from("What this collector keeps, and who sees it\n\n");
    let operator = operator.unwrap_or("not named; ask the person who gave you the address of this collector");
    let submitters = if is_open {
        "Everybody may submit results."
    } else {
        "Only agents with a token may submit results."
    };
    let _ = write!(text, "Operator: {operator}\n{submitters}\n\n");
    text.push_str("Nothing arrives here without consent, which the agent asks for once. Its levels:\n");
    for consent in Consent::ALL {
        let _ = writeln!(text, "  {:8} {}", consent.name(), consent.words());
    }
    text.push_str(
        "\nKept of each result: its id, a random id of the agent, the time of arrival, the level of consent, a summary (figures, \
         names of networks, servers and scenarios, versions), and the files of the result.\n\
         Kept of each agent: its id, its name, its version, its level of consent, the number and age of the results that wait in \
         its outbox, and the time of its last check-in.\n\
         Kept of a running measurement: the agent's name, experiment, server, transport, pattern and the goodput of each path. \
         The page of running measurements shows those of agents with the consent `public`, in the anonymous form.\n\
         Kept of the origin of each result: the serial number of the agent's token or, without one, a hash of the /24 (IPv4) or /48 \
         (IPv6) that it comes from, to count people. Not kept: the address from which a result or a check-in comes. Addresses are \
         used in memory to limit the rate of requests.\n\n\
         Public results have /24 (IPv4) and /48 (IPv6) prefixes instead of addresses everywhere, and no names of Wi-Fi \
         networks, no link-layer addresses, no position, no home directories and no host names other than those of test servers. The agent removes them before it sends the result, and this collector once more before it shows the result. \
         A prefix can still belong to few people: treat public results as personal data.\n\
         The name of an operator or of a test server is public only while the public results with it come from at least three \
         agents, with three tokens or in three such networks; figures by operator or server need as many. Below that the name \
         appears in no list, page, file, report or result directory, and no search or filter finds it. The page of test servers \
         names those that the operator registered.\n\n",
    );
    let _ = match retention {
        Some(time) => writeln!(text, "Results are deleted {} after their arrival.", duration(time)),
        None => writeln!(text, "Results are kept until the operator or their owner deletes them."),
    };
    let _ = writeln!(
        text,
        "An agent's entry is deleted {} after its last check-in, its report of a running measurement after {}.",
        duration(retention.unwrap_or(AGENTS_KEPT)),
        duration(LIVE_KEPT)
    );
    text.push_str(
        "Deletion: `pathbench submit --delete` deletes all results of an agent; it uses the deletion token, which only the agent \
         has. The id of a deleted result stays, so that no repetition brings the result back. Backups and exports that others have copied are out of reach.\n",
    );
    text
}
