//! Results as a viewer may see them: for everybody in the anonymous form, without the names of operators and servers that
//! too few people share ([`Columns::shows`](crate::columns::Columns::shows)).

use super::results::ResultReader;
use crate::columns::{Columns, Dimension};
use crate::store::StoredResult;
use crate::viewer::Viewer;
use pathbench_api::anonymise::Anonymiser;
use pathbench_api::name::Name;
use pathbench_api::summary::Summary;

/// The anonymous form of one result, and the state of the names that it was made under.
#[derive(Debug)]
pub(super) struct AnonymousForm {
    pub(super) anonymiser: Anonymiser,
    pub(super) version: u64,
}

impl ResultReader {
    /// The summary as the viewer may see it; `None` if it is damaged.
    pub fn summary(&self, result: &StoredResult, viewer: Viewer) -> Option<Summary> {
        let mut summary: Summary = serde_json::from_slice(&result.summary).ok()?;
        if viewer == Viewer::Everybody {
            let mut anonymiser = Anonymiser::default();
            hide_names(&self.columns(), &mut summary, &mut anonymiser);
            anonymiser.summary(&mut summary);
        }
        Some(summary)
    }

    /// The form of the files of a result for everybody. The files name servers that its summary does not: those that
    /// are not public are hidden.
    pub(super) fn anonymous_form(&self, result: &StoredResult) -> AnonymousForm {
        let columns = self.columns();
        let servers = columns.public_servers().map(str::to_owned);
        let mut anonymiser = Anonymiser::with_public_servers(servers);
        if let Ok(mut summary) = serde_json::from_slice(&result.summary) {
            hide_names(&columns, &mut summary, &mut anonymiser);
        }
        AnonymousForm { anonymiser, version: columns.disclosure_version() }
    }

    /// Whether everybody may see the name of the server of a running measurement.
    pub(super) fn shows_server(&self, name: &Name) -> bool {
        shows(&self.columns(), Dimension::Server, name)
    }
}

/// Names are in the columns in the anonymous form.
fn shows(columns: &Columns, dimension: Dimension, name: &Name) -> bool {
    let mut name = name.clone();
    match dimension {
        Dimension::Server => Anonymiser::default().server_name(&mut name),
        _ => Anonymiser::default().name(&mut name),
    }
    columns.shows(Viewer::Everybody, dimension, name.as_str())
}

/// Takes the hidden names out of their fields, and makes the anonymiser remove them from all other texts.
fn hide_names(columns: &Columns, summary: &mut Summary, anonymiser: &mut Anonymiser) {
    let operators = summary.networks.iter_mut().map(|network| (Dimension::Operator, &mut network.operator));
    for (dimension, field) in operators.chain([(Dimension::Server, &mut summary.server)]) {
        if let Some(hidden) = field.take_if(|name| !shows(columns, dimension, name)) {
            anonymiser.hide(hidden.as_str());
        }
    }
}
