//! One connection through the proxy. Each direction has a short queue of chunks, each with its arrival time.
//! Faults apply at the end of the queue, so a chunk that was in flight when the fault was set is lost too.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use super::{NetworkFault, Settings, State, connect};

/// The number of bytes to read at once.
const PIECE: usize = 16 * 1024;

/// The maximum number of chunks in flight in each direction. A sender of more chunks has to wait.
const MAX_CHUNKS: usize = 64;

/// The way in which a connection ends.
enum End {
    /// The client and the server have closed the connection, or the proxy was set to close it.
    Closed,
    Reset,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

struct Connection {
    number: u64,
    state: Arc<State>,
    /// Whether the next response from the server must be dropped.
    loses_answer: AtomicBool,
    client_is_gone: Notify,
}

/// Forwards a client's bytes to the server and back, until the connection ends or the settings require that
/// it ends.
pub(super) async fn keep(mut client: TcpStream, number: u64, state: Arc<State>) {
    let settings = state.settings.subscribe();
    let connection =
        Connection { number, state, loses_answer: AtomicBool::new(false), client_is_gone: Notify::new() };
    let mut server = None;
    let end = tokio::select! {
        end = connection.end_requested(settings.clone()) => end,
        end = connection.pass_on(&mut client, &mut server, settings) => end.unwrap_or(End::Closed),
    };
    if matches!(end, End::Reset) {
        for stream in [Some(&client), server.as_ref()].into_iter().flatten() {
            // A connection that is already closed can't be reset.
            let _ = stream.set_zero_linger();
        }
    }
}

impl Connection {
    async fn end_requested(&self, mut settings: watch::Receiver<Settings>) -> End {
        let settings_changed = settings.wait_for(|settings| self.end_by(settings).is_some()).await;
        // The proxy owns its connections, so the sender of settings outlives this receiver.
        settings_changed.ok().and_then(|settings| self.end_by(&settings)).unwrap_or(End::Closed)
    }

    fn end_by(&self, settings: &Settings) -> Option<End> {
        if settings.fault == NetworkFault::Reset || self.number < settings.reset_before {
            Some(End::Reset)
        } else if settings.fault == NetworkFault::Cut || self.number < settings.cut_before {
            Some(End::Closed)
        } else {
            None
        }
    }

    async fn pass_on(
        &self,
        client: &mut TcpStream,
        server: &mut Option<TcpStream>,
        settings: watch::Receiver<Settings>,
    ) -> io::Result<End> {
        let now = *settings.borrow();
        if now.fault == NetworkFault::BlackHole {
            // The server does not receive these bytes.
            swallow(client).await?;
            return Ok(End::Closed);
        }
        client.set_nodelay(true)?;
        let server = server.insert(connect(now.server).await?);
        let ((client_reader, answers), (answered, server_writer)) = (client.split(), server.split());
        let to_server = self.carry(Direction::ToServer, client_reader, server_writer, settings.clone());
        let to_client = self.carry(Direction::ToClient, answered, answers, settings);
        tokio::try_join!(to_server, to_client)?;
        Ok(End::Closed)
    }

    /// Forwards bytes in one direction, until the sender closes its end. An error ends the whole connection.
    async fn carry(
        &self,
        direction: Direction,
        mut from: ReadHalf<'_>,
        mut to: WriteHalf<'_>,
        settings: watch::Receiver<Settings>,
    ) -> io::Result<()> {
        let (queue, mut queued) = mpsc::channel::<(Instant, Vec<u8>)>(MAX_CHUNKS);
        let delay = |settings: &Settings| match direction {
            Direction::ToServer => settings.to_server,
            Direction::ToClient => settings.to_client,
        };
        let taking = async {
            let mut by = delay(&settings.borrow());
            let mut rng = by.rng(self.number);
            loop {
                let mut piece = Vec::with_capacity(PIECE);
                match from.read_buf(&mut piece).await {
                    Ok(read @ 1..) => {
                        let passed = &self.state.passed[usize::from(direction == Direction::ToClient)];
                        passed.fetch_add(read as u64, Ordering::Relaxed);
                    }
                    // While responses are lost, the end of the server's connection is lost, too.
                    Ok(_) => break,
                    Err(_)
                        if direction == Direction::ToClient && self.loses(direction, &settings.borrow()) =>
                    {
                        break;
                    }
                    Err(error) => return Err(error),
                }
                let holds = delay(&settings.borrow());
                if holds != by {
                    (by, rng) = (holds, holds.rng(self.number));
                }
                let due = Instant::now() + by.draw(&mut rng);
                if queue.send((due, piece)).await.is_err() {
                    break;
                }
            }
            if direction == Direction::ToServer {
                self.client_is_gone.notify_one();
            }
            // Dropping the sender ends the receiving side of the queue.
            drop(queue);
            io::Result::Ok(())
        };
        let giving = async {
            let mut was_lost = false;
            while let Some((due, piece)) = queued.recv().await {
                tokio::time::sleep_until(due).await;
                was_lost = was_lost || self.loses(direction, &settings.borrow());
                if was_lost {
                    continue;
                }
                if direction == Direction::ToServer && self.state.is_to_be_lost(&piece) {
                    self.loses_answer.store(true, Ordering::SeqCst);
                } else if direction == Direction::ToClient && self.loses_answer.load(Ordering::SeqCst) {
                    self.state.lost_answers.fetch_add(1, Ordering::SeqCst);
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                if let Err(error) = to.write_all(&piece).await {
                    was_lost = direction == Direction::ToServer
                        && self.loses(Direction::ToClient, &settings.borrow());
                    if !was_lost {
                        return Err(error);
                    }
                }
            }
            if was_lost || self.loses(direction, &settings.borrow()) {
                // While nothing arrives in this direction, the client does not see that the connection has
                // ended.
                if direction == Direction::ToClient {
                    self.client_is_gone.notified().await;
                }
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            to.shutdown().await
        };
        tokio::try_join!(taking, giving).map(drop)
    }

    fn loses(&self, direction: Direction, settings: &Settings) -> bool {
        self.number < settings.silent_before
            || match settings.fault {
                NetworkFault::BlackHole => true,
                NetworkFault::HalfOpen => direction == Direction::ToClient,
                _ => false,
            }
    }
}

/// Reads and discards bytes until the client closes the connection.
async fn swallow(client: &mut TcpStream) -> io::Result<()> {
    let mut swallowed = vec![0; PIECE];
    while client.read(&mut swallowed).await? > 0 {}
    Ok(())
}
