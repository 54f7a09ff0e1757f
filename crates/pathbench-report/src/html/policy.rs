//! The content security policy of the page: its own scripts and styles by their hashes, and nothing from elsewhere.

use data_encoding::BASE64;
use maud::{Markup, html};
use ring::digest::{SHA256, digest};

/// The `meta` element, to be the first of `head`: a policy covers only what follows it. Data blocks need no hash.
pub(super) fn meta(scripts: &[&str], styles: &[&str]) -> Markup {
    html! { meta http-equiv="Content-Security-Policy" content=(text(scripts, styles)); }
}

pub(super) fn text(scripts: &[&str], styles: &[&str]) -> String {
    format!(
        "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
        sources(scripts),
        sources(styles)
    )
}

fn sources(texts: &[&str]) -> String {
    if texts.is_empty() {
        return "'none'".to_owned();
    }
    let hash = |text: &&str| format!("'sha256-{}'", BASE64.encode(digest(&SHA256, text.as_bytes()).as_ref()));
    texts.iter().map(hash).collect::<Vec<_>>().join(" ")
}
