//! The second pass over the captures: time-sequence graphs, and captures of one connection each.

use super::input;
use pathbench_program::exit::Failure;
use pathbench_record::file::OpenDirectory;
use pathbench_record::trace::{SequenceLine, TraceDocument};
use pathbench_trace::analysis::{Analysis, AnalysisParameters, analyse};
use pathbench_trace::extract::Extract;
use pathbench_trace::graph::Graphs;
use pathbench_trace::quic::Quic;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Connections with graphs: each has an open file and a buffer.
const MOST_CONNECTIONS: usize = 20;

/// Reads the captures again. The seed is that of the first pass, so that the connections have the same ids. With a
/// directory, it writes captures into it.
pub(super) fn run(
    captures: &[PathBuf],
    first: &Analysis<()>,
    parameters: &AnalysisParameters,
    out: Option<&Path>,
) -> Result<Vec<SequenceLine>, Failure> {
    let connections = select_connections(&first.document);
    if connections.is_empty() {
        return Ok(Vec::new());
    }
    let sources = captures.iter().map(|file| input::open(file)).collect::<Result<Vec<_>, _>>()?;
    let mut files = out.map(CaptureFiles::create).transpose()?;
    let graphs = Graphs::new(connections.iter().copied(), first.origin_ns);
    let extract = files
        .as_mut()
        .map(|files| Extract::new(connections, &first.interfaces, move |id, bytes| files.append(id, bytes)));
    // TCP connections have their ids without keys of QUIC.
    let second = analyse(sources, parameters, Quic::new(None), (graphs, extract));
    let (graphs, extract) = second.sequence;
    if let Some(extract) = extract {
        extract.finish();
    }
    files.map_or(Ok(()), CaptureFiles::finish)?;
    Ok(graphs.into_lines())
}

/// The TCP connections with the most payload.
fn select_connections(document: &TraceDocument) -> Vec<u64> {
    let tcp = document.connections.iter().filter(|one| matches!(one.transport.as_str(), "tcp" | "mptcp"));
    let mut all: Vec<_> = tcp
        .map(|one| (one.upload.payload_bytes.saturating_add(one.download.payload_bytes), one.id))
        .filter(|(payload, _)| *payload > 0)
        .collect();
    all.sort_by_key(|(payload, id)| (std::cmp::Reverse(*payload), *id));
    all.into_iter().take(MOST_CONNECTIONS).map(|(_, id)| id).collect()
}

/// `captures/connection-N.pcapng`.
struct CaptureFiles {
    directory: OpenDirectory,
    open: BTreeMap<u64, File>,
    /// The first error; nothing is written after it.
    failed: Option<Failure>,
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!(
        "cannot write {}: {error}; is the directory writable, and the disk not full?",
        path.display()
    ))
}

impl CaptureFiles {
    fn create(out: &Path) -> Result<Self, Failure> {
        let directory = OpenDirectory::open(out)
            .and_then(|out| out.subdirectory("captures"))
            .map_err(|error| cannot_write(&out.join("captures"), &error))?;
        Ok(Self { directory, open: BTreeMap::new(), failed: None })
    }

    fn append(&mut self, connection: u64, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let name = format!("connection-{connection}.pcapng");
        let written = match self.open.get_mut(&connection) {
            Some(file) => file.write_all(bytes),
            None => self.directory.create_new(&name, 0o666).and_then(|mut file| {
                file.write_all(bytes)?;
                self.open.insert(connection, file);
                Ok(())
            }),
        };
        self.failed = written.err().map(|error| cannot_write(&self.directory.path().join(&name), &error));
    }

    fn finish(self) -> Result<(), Failure> {
        self.failed.map_or(Ok(()), Err)
    }
}
