//! A deadline for writes: a client that does not read its answer loses its connection, and the answer its memory.

use super::metrics::{Metrics, Refused};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The time for each [`PART_BYTES`] of an answer. A socket is writable again when a third of its buffer is free, up to
/// about 1.4 MB.
const PART_TIME: Duration = Duration::from_secs(60);
const PART_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct WriteDeadline<S> {
    stream: S,
    metrics: Arc<Metrics>,
    /// Since the last restart of the time.
    written: usize,
    /// While the client accepts nothing.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteDeadline<S> {
    pub(super) const fn new(stream: S, metrics: Arc<Metrics>) -> Self {
        Self { stream, metrics, written: 0, deadline: None }
    }

    fn restart(&mut self) {
        (self.written, self.deadline) = (0, None);
    }

    /// `result`, or an error if it is pending and the time is over.
    fn timed<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            return result;
        }
        ready!(self.deadline.get_or_insert_with(|| Box::pin(sleep(PART_TIME))).as_mut().poll(context));
        self.metrics.count_refused(Refused::Time);
        self.restart();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn wrote(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = result {
            self.written += bytes;
            if self.written >= PART_BYTES {
                self.restart();
            }
        }
        self.timed(context, result)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.wrote(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        if result.is_ready() {
            self.restart();
        }
        self.timed(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.timed(context, result)
    }
}
