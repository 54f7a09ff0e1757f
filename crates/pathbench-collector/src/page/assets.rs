//! Style sheet and scripts, from memory. Their names contain a hash of their content, so that browsers keep them for
//! a year.

use crate::reader::answer::typed;
use crate::refusal::Refusal;
use axum::extract::Path;
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use axum::response::Response;
use pathbench_api::digest::Digest;
use std::sync::LazyLock;

pub(super) struct Asset {
    /// `collector-0123456789abcdef.css`
    pub(super) name: String,
    kind: &'static str,
    text: String,
}

impl Asset {
    fn new(stem: &str, extension: &str, kind: &'static str, text: String) -> Self {
        let hash: String = Digest::compute(text.as_bytes()).to_string().chars().take(16).collect();
        Self { name: format!("{stem}-{hash}.{extension}"), kind, text }
    }
}

pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let text =
        format!("{}\n{}", pathbench_report::html::style_sheet(), include_str!("../../assets/collector.css"));
    Asset::new("collector", "css", "text/css; charset=utf-8", text)
});

pub(super) static LIVE: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("../../assets/live.js").to_owned();
    Asset::new("live", "js", "text/javascript; charset=utf-8", text)
});

/// Browsers ask for `/favicon.ico` on pages that name no icon, as the report is one.
pub(super) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("icon", "svg", "image/svg+xml", include_str!("../../assets/icon.svg").to_owned())
});

pub(super) async fn icon() -> Response {
    typed(ICON.kind, ICON.text.clone())
}

pub(super) async fn asset(Path(name): Path<String>) -> Result<Response, Refusal> {
    let all: [&Asset; 3] = [&STYLE, &LIVE, &ICON];
    let found =
        all.into_iter().find(|one| one.name == name).ok_or_else(|| Refusal::not_found("no such asset"))?;
    let mut response = typed(found.kind, found.text.clone());
    let for_ever = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(CACHE_CONTROL, for_ever);
    Ok(response)
}
