//! The directions of links and of test data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkDirection {
    /// From the first end (client) to the second (server).
    Forward,
    /// From the second end to the first.
    Reverse,
}

impl LinkDirection {
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Reverse];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Reverse => "reverse",
        }
    }

    /// Index in [`BOTH`](Self::BOTH).
    pub const fn index(self) -> usize {
        self as usize
    }

    /// For each of [`BOTH`](Self::BOTH), whether `only` selects it; `None` selects both.
    pub fn selected(only: Option<Self>) -> [bool; 2] {
        Self::BOTH.map(|direction| only.is_none_or(|only| only == direction))
    }

    /// The elements of `both`, which has one for each of [`BOTH`](Self::BOTH), that `only` selects.
    pub fn select<T>(only: Option<Self>, both: [T; 2]) -> impl Iterator<Item = T> {
        let selected = Self::selected(only);
        both.into_iter().zip(selected).filter_map(|(one, is_selected)| is_selected.then_some(one))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Upload,
    Download,
}

impl Direction {
    pub const BOTH: [Self; 2] = [Self::Upload, Self::Download];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Download => "download",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::Display)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum DataDirection {
    Upload,
    Download,
    /// Both at the same time, on the same connections.
    Both,
}

impl DataDirection {
    pub const ALL: [Self; 3] = [Self::Upload, Self::Download, Self::Both];

    pub fn name(self) -> &'static str {
        self.into()
    }

    pub const fn has_upload(self) -> bool {
        matches!(self, Self::Upload | Self::Both)
    }

    pub const fn has_download(self) -> bool {
        matches!(self, Self::Download | Self::Both)
    }
}
