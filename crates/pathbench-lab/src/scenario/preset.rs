//! `preset = "lte"`: models of usual networks, which fill in what a path or link does not say itself.

use super::mistake::Ledger;
use super::parameters;
use super::section::Section;
use super::syntax;
use super::tree::Origin;
use pathbench_link::{LinkModel, overlay};
use serde_json::{Map, Value};

/// Name and text of each; docs/presets.md says where the figures come from.
const PRESETS: [(&str, &str); 7] = [
    ("wifi-good", include_str!("presets/wifi-good.toml")),
    ("wifi-cafe", include_str!("presets/wifi-cafe.toml")),
    ("lte", include_str!("presets/lte.toml")),
    ("5g-walk", include_str!("presets/5g-walk.toml")),
    ("leo-satellite", include_str!("presets/leo-satellite.toml")),
    ("adsl", include_str!("presets/adsl.toml")),
    ("datacenter", include_str!("presets/datacenter.toml")),
];

#[derive(Debug, Clone, Default)]
pub(super) struct Preset {
    pub(super) directions: [LinkModel; 2],
    pub(super) requested: [Map<String, Value>; 2],
}

/// The preset that `section` names; a link that does nothing where it names none.
pub(super) fn read(section: &Section<'_>) -> Preset {
    section.choice("preset", &PRESETS).and_then(|text| parse(text).ok()).unwrap_or_default()
}

/// The presets' texts are ours: that all of them can be read is a test's business.
fn parse(text: &str) -> Result<Preset, Ledger> {
    let ledger = Ledger::new("preset");
    let Some(table) = syntax::document(text, &ledger) else { return Err(ledger) };
    let root = Section { ledger: &ledger, table: Some(&table), origin: Origin::Line(1), path: String::new() };
    let both = parameters::read(&root);
    let mut preset = Preset::default();
    for (index, direction) in ["upload", "download"].into_iter().enumerate() {
        let section = root.section(direction);
        let own = parameters::read(&section);
        preset.directions[index] = LinkModel::default().with(&both.change).with(&own.change);
        parameters::check(&[&section, &root], &preset.directions[index]);
        preset.requested[index].clone_from(&both.json);
        overlay(&mut preset.requested[index], own.json);
    }
    if ledger.is_empty() { Ok(preset) } else { Err(ledger) }
}

#[cfg(test)]
mod tests {
    use super::super::keys;
    use super::*;

    #[test]
    fn every_preset_can_be_read() {
        for (name, text) in PRESETS {
            if let Err(ledger) = parse(text) {
                panic!("{name}: {}", ledger.into_mistakes());
            }
            let ledger = Ledger::new(name);
            let table = syntax::document(text, &ledger).unwrap();
            let known =
                |key: &str| keys::direction().contains(&key) || ["upload", "download", "mtu"].contains(&key);
            for field in &table.fields {
                assert!(known(&field.key), "preset {name} has a key `{}`", field.key);
            }
        }
    }
}
