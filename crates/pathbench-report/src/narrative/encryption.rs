//! Which labels are encrypted: encrypted and clear-text transports are not directly comparable.

use crate::view::View;
use pathbench_record::document::RunRecord;

/// `None` where the labels of a result do not differ in it.
pub(crate) fn encryption(view: &View) -> Option<String> {
    let (clear, encrypted) = (labels(view, false), labels(view, true));
    if clear.is_empty() || encrypted.is_empty() {
        return None;
    }
    let (clear, encrypted) = (clear.join(", "), encrypted.join(", "));
    Some(format!("{clear} in clear text, {encrypted} encrypted: not directly comparable"))
}

fn labels<'a>(view: &View<'a>, encrypted: bool) -> Vec<&'a str> {
    let mut labels = Vec::new();
    for run in view.groups.iter().flat_map(|group| &group.runs) {
        if run.encrypted == encrypted && !labels.contains(&run.label.as_str()) {
            labels.push(run.label.as_str());
        }
    }
    labels
}

/// `TLS 1.3 TLS13_AES_128_GCM_SHA256`, `encrypted`, or `clear text`.
pub(crate) fn encryption_of(run: &RunRecord) -> String {
    match (&run.encryption, run.encrypted) {
        (Some(suite), true) => suite.clone(),
        (None, true) => "encrypted".to_owned(),
        (_, false) => "clear text".to_owned(),
    }
}
