//! A page taken apart, as a browser does it: a script ends at the first `</script`.

#![allow(dead_code, reason = "every test file uses its own parts")]

#[derive(Debug, Default)]
pub(crate) struct Parts<'a> {
    pub(crate) scripts: Vec<&'a str>,
    pub(crate) styles: Vec<&'a str>,
    /// The data blocks.
    pub(crate) blocks: Vec<&'a str>,
    /// The page without scripts and data blocks.
    pub(crate) rest: String,
}

impl<'a> Parts<'a> {
    pub(crate) fn of(page: &'a str) -> Self {
        let mut parts = Self::default();
        let mut pieces = page.split("<script");
        parts.rest.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let (attributes, rest) = piece.split_once('>').unwrap_or_default();
            let (content, rest) = rest.split_once("</script>").unwrap_or((rest, ""));
            let is_data = attributes.contains("type=\"application/json\"");
            let list = if is_data { &mut parts.blocks } else { &mut parts.scripts };
            list.push(content);
            parts.rest.push_str(rest);
        }
        let styles = page.split("<style>").skip(1);
        parts.styles = styles.filter_map(|piece| Some(piece.split_once("</style>")?.0)).collect();
        parts
    }
}
