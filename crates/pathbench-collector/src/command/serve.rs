//! The collector from its start to its end.

use super::directory::{Opening, within_directory};
use super::options::{ServeArgs, StorageArgs};
use super::secret;
use super::stores::Stores;
use super::tls::CertificateFiles;
use crate::columns::Columns;
use crate::http::access::{Authority, Gate, SubmitAccess};
use crate::http::limits::{Quotas, RateLimit};
use crate::http::ready::Readiness;
use crate::http::server::{self, Acceptance, Service};
use crate::http::{App, Metrics, router};
use crate::ingest::{Writer, WriterOptions};
use crate::log::Log;
use crate::maintenance::{self, Erased, MaintenanceError};
use crate::memory::MemoryBudget;
use crate::raw::{RawMaintenance, RawStore};
use crate::reader::{self, ResultReader};
use crate::store::reserve::Reserve;
use crate::store::{Database, DatabaseMaintenance, DocumentKind};
use crate::turn::Turns;
use pathbench_program::exit::Failure;
use pathbench_program::{output, signals};
use pathbench_record::time::SharedClock;
use serde_json::json;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use std::{io, net};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Interval of the deletion of old results and of deleted raw parts.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(60);

const ROUNDS_PER_DAY: u32 = 24 * 60;

/// Threads for blocking work: readers of the database and of the raw store.
const BLOCKING_THREADS: usize = 64;

/// Bodies that are decompressed and parsed at the same time, and of one client.
const MOST_BODIES: usize = 4;
const MOST_BODIES_OF_CLIENT: usize = 2;

pub(super) fn serve(
    storage: &StorageArgs,
    args: &ServeArgs,
    clock: &SharedClock,
    print: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let certificate = match (&args.cert, &args.key) {
        (Some(certificate), Some(key)) => Some(CertificateFiles::open(certificate, key)?),
        _ => None,
    };
    let acceptor = certificate.as_ref().map(CertificateFiles::acceptor).transpose()?;
    raise_descriptor_limit();
    let stores = Stores::open(storage, Opening::Create, clock)?;
    let upkeep = Upkeep { database: Arc::clone(&stores.database), raw: Arc::clone(&stores.raw) };
    let app = Arc::new(app(storage, args, clock, stores)?);
    let secrets = secret::path(storage, Opening::Existing)?;
    refresh_authority(&app, &secrets)?;
    let followed = follow(&app, secrets).map_err(Failure::failed)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(Failure::failed)?;
    let scheme = if acceptor.is_some() { "https" } else { "http" };
    let served = runtime.block_on(async {
        let listener = TcpListener::bind(args.listen)
            .await
            .map_err(|error| Failure::failed(format!("listening on {}: {error}", args.listen)))?;
        let address = listener.local_addr().map_err(Failure::failed)?;
        let (stop, stopping) = watch::channel(false);
        // Without a receiver the collector has ended.
        signals::on_service_signal(signals::exit_at_second(move || _ = stop.send(true), || {}));
        let reload = signals::reload_flag();
        print(&format!(
            "Collector  {scheme}://{address}/\nAgents     pathbench agent {scheme}://{address}\n"
        ));
        if let Some(certificate) = certificate {
            print(&format!("SHA-256    {}\n", certificate.fingerprint()));
            tokio::spawn(certificate.follow(reload, Arc::clone(clock), app.log.clone()));
        }
        app.log.info("started", json!({ "address": address.to_string(), "tls": scheme == "https" }));
        tokio::spawn(upkeep.run(Arc::clone(&app)));
        let acceptance = Acceptance {
            max_connections: args.max_connections as usize,
            max_connections_per_client: args.max_connections_per_client as usize,
            trusted_proxies: args.trusted_proxy.clone(),
        };
        let service = Service {
            tls: acceptor,
            router: router(Arc::clone(&app)),
            acceptance: Arc::new(acceptance),
            stopping,
            log: app.log.clone(),
            metrics: Arc::clone(&app.metrics),
        };
        if args.listen_stdin {
            let further = standard_input().map_err(|error| {
                Failure::bad_input(format!("--listen-stdin: standard input is no listening socket: {error}"))
            })?;
            tokio::spawn(server::serve(further, service.clone()));
        }
        server::serve(listener, service).await;
        Ok(())
    });
    // Blocking work ends by the deadlines of the stores.
    runtime.shutdown_timeout(Duration::from_secs(5));
    // Its thread ends with the channel.
    drop(followed);
    let log = app.log.clone();
    // The writer stores what waits.
    drop(app);
    log.info("stopped", json!({}));
    served
}

/// Reads the secret keys and the revoked tokens anew.
fn refresh_authority(app: &App, secrets: &Path) -> Result<(), Failure> {
    let keys = secret::read(secrets)?;
    let revoked = app.database.documents(DocumentKind::Revocation)?;
    app.gate.replace(Authority { keys, revoked: revoked.into_iter().map(|one| one.key).collect() });
    Ok(())
}

/// Starts the thread that keeps the figures and the authority of tokens up to date; it ends when the returned channel is
/// dropped.
fn follow(app: &Arc<App>, secrets: PathBuf) -> io::Result<Sender<()>> {
    let (stop, stopped) = channel();
    let (reader, app) = (Arc::clone(&app.reader), Arc::downgrade(app));
    std::thread::Builder::new().name("follow".to_owned()).spawn(move || {
        reader::follow(reader.database.as_ref(), &reader.columns, &stopped, |followed| {
            let Some(app) = app.upgrade() else { return };
            if let Err(failure) = refresh_authority(&app, &secrets) {
                app.log.error("tokens", json!({ "error": failure.message }));
            }
            match followed {
                Ok(_) => app.is_loaded.store(true, Ordering::SeqCst),
                Err(error) => {
                    app.metrics.count_follow_error();
                    app.log.error("follow", json!({ "error": error.to_string() }));
                }
            }
        });
    })?;
    Ok(stop)
}

fn app(storage: &StorageArgs, args: &ServeArgs, clock: &SharedClock, stores: Stores) -> Result<App, Failure> {
    let keys = secret::keys(storage, Opening::Create)?;
    let (database, raw): (Arc<dyn Database>, Arc<dyn RawStore>) = (stores.database, stores.raw);
    let log = Log::new(Arc::clone(clock), output::stderr());
    let writer_log = log.clone();
    let report = move |line: &str| writer_log.error("writer", json!({ "error": line }));
    // The stores may be elsewhere; the directory itself is always here.
    let reserve = reserve(storage, args)?;
    let of_writer = reserve.clone();
    let options = WriterOptions {
        log: Arc::new(report),
        clock: Arc::clone(clock),
        has_space: Arc::new(move || of_writer.as_ref().is_none_or(Reserve::has_space)),
        ..WriterOptions::default()
    };
    let writer = Writer::start(Arc::clone(&database), Arc::clone(&raw), options).map_err(Failure::failed)?;
    let submit = if args.open { SubmitAccess::Open } else { SubmitAccess::Token };
    let columns = Arc::new(RwLock::new(Columns::with_memory((args.column_memory as usize) << 20)));
    let mut reader = ResultReader::new(Arc::clone(&database), Arc::clone(&raw), columns, Arc::clone(clock));
    reader.answers = MemoryBudget::new((args.answer_memory as usize) << 20);
    Ok(App {
        database,
        raw,
        reader: Arc::new(reader),
        writer,
        clock: Arc::clone(clock),
        gate: Gate::new(keys, submit),
        rate: RateLimit::new(args.rate_limit),
        quotas: Quotas::new(args.client_results, args.client_storage << 20, args.client_agents),
        reserve,
        most_results: args.max_results,
        memory: MemoryBudget::new((args.body_memory as usize) << 20),
        bodies: Turns::new(MOST_BODIES, MOST_BODIES_OF_CLIENT, Arc::clone(clock)),
        metrics: Arc::new(Metrics::new(clock.as_ref())),
        log,
        operator: args.operator.clone(),
        retention: args.retention.map(|time| time.0),
        is_loaded: AtomicBool::new(false),
        readiness: Readiness::default(),
    })
}

/// The reserve of disk, unless database and raw parts are both elsewhere.
fn reserve(storage: &StorageArgs, args: &ServeArgs) -> Result<Option<Reserve>, Failure> {
    if storage.database.is_some() && storage.raw.is_some() {
        return Ok(None);
    }
    let file = within_directory(storage, Reserve::FILE, Opening::Create)?;
    Ok(Some(Reserve::new(file, args.disk_reserve << 20)))
}

/// The listening socket that is standard input, as a parent passes it.
fn standard_input() -> io::Result<TcpListener> {
    let socket = net::TcpListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.local_addr()?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

/// Retention, old live reports and agents, and the erasure of deleted raw parts.
struct Upkeep {
    database: Arc<dyn DatabaseMaintenance>,
    raw: Arc<dyn RawMaintenance>,
}

impl Upkeep {
    async fn run(self, app: Arc<App>) {
        let upkeep = Arc::new(self);
        for round in 0_u32.. {
            let (upkeep, shared) = (Arc::clone(&upkeep), Arc::clone(&app));
            let work = move || upkeep.round(&shared, round.is_multiple_of(ROUNDS_PER_DAY));
            match tokio::task::spawn_blocking(work).await {
                Ok(Ok((0, erased))) if erased == Erased::default() => {}
                Ok(Ok((deleted, erased))) => app.log.info(
                    "upkeep",
                    json!({ "deleted": deleted, "erased_parts": erased.ranges, "removed_segments": erased.segments }),
                ),
                Ok(Err(error)) => app.log.error("upkeep", json!({ "error": error.to_string() })),
                Err(error) => app.log.error("upkeep", json!({ "error": error.to_string() })),
            }
            tokio::time::sleep(UPKEEP_INTERVAL).await;
        }
    }

    fn round(&self, app: &App, is_daily: bool) -> Result<(u64, Erased), MaintenanceError> {
        let (database, raw) = (self.database.as_ref(), self.raw.as_ref());
        let deleted = match app.retention {
            Some(keep) => maintenance::retain(database, raw, keep, app.clock.unix_ms())?,
            None => 0,
        };
        app.metrics.count_retention(deleted);
        if let Some(Err(error)) = app.reserve.as_ref().map(Reserve::fill) {
            app.log.error("reserve", json!({ "error": error.to_string() }));
        }
        maintenance::delete_old_documents(database, app.retention, app.clock.unix_ms())?;
        let mut erased = maintenance::erase_deleted(database, raw)?;
        if is_daily {
            let unreferenced = maintenance::erase_unreferenced(database, raw)?;
            erased.ranges += unreferenced.ranges;
            erased.segments += unreferenced.segments;
        }
        Ok((deleted, erased))
    }
}

/// Beyond a soft limit of 1024 the accept loop would wait.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}
