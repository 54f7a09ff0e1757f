//! Two arbitrary files, separated by a line `---`: no panic, and every successful import is a valid scenario.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pathbench_lab::scenario::{Overrides, Source, plan};
use pathbench_minitopo::{MinitopoFile, import_minitopo};

fuzz_target!(|bytes: &[u8]| {
    let cut = bytes.windows(4).position(|window| window == b"---\n");
    let (topology, experiment) = match cut {
        Some(cut) => (&bytes[..cut], Some(&bytes[cut + 4..])),
        None => (bytes, None),
    };
    let experiment = experiment.map(|content| MinitopoFile { name: "xp", content });
    match import_minitopo(MinitopoFile { name: "topo", content: topology }, experiment) {
        Ok(text) => {
            if let Err(mistakes) = plan(&Source::from_text("imported.toml", &*text), &Overrides::default()) {
                panic!("what was imported is no scenario:\n{mistakes}\n{text}");
            }
        }
        Err(mistakes) => {
            assert!(!mistakes.0.is_empty());
            assert!(mistakes.0.iter().all(|mistake| mistake.line.is_some() && !mistake.remedy.is_empty()));
            assert!(!mistakes.to_string().replace('\n', "").contains(char::is_control));
        }
    }
});
