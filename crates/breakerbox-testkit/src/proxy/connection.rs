//! One connection through the proxy. Each direction has a short queue of chunks, each with the time at which it
//! arrives. Faults apply at the end of the queue: a chunk that was in flight when the fault began is lost too.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use super::{Orders, State, Trouble, connect};

/// How many bytes are read at once.
const PIECE: usize = 16 * 1024;

/// How many chunks may be in flight in each direction. A sender of more has to wait.
const UNDER_WAY: usize = 64;

/// The way in which a connection ends.
enum End {
    /// Client and server have closed it, or the proxy was set to cut it.
    Closed,
    Reset,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

struct Connection {
    number: u64,
    state: Arc<State>,
    /// Whether the next answer is to be lost.
    loses_answer: AtomicBool,
    client_is_gone: Notify,
}

/// Serves a connection until it ends.
pub(super) async fn keep(mut client: TcpStream, number: u64, state: Arc<State>) {
    let orders = state.orders.subscribe();
    let connection =
        Connection { number, state, loses_answer: AtomicBool::new(false), client_is_gone: Notify::new() };
    let mut server = None;
    let end = tokio::select! {
        end = connection.told_to_end(orders.clone()) => end,
        end = connection.pass_on(&mut client, &mut server, orders) => end.unwrap_or(End::Closed),
    };
    if matches!(end, End::Reset) {
        for stream in [Some(&client), server.as_ref()].into_iter().flatten() {
            // A connection that is already closed can't be reset.
            let _ = stream.set_zero_linger();
        }
    }
}

impl Connection {
    async fn told_to_end(&self, mut orders: watch::Receiver<Orders>) -> End {
        let told = orders.wait_for(|orders| self.end_by(orders).is_some()).await;
        // The proxy owns its connections, so the sender of settings outlives this receiver.
        told.ok().and_then(|orders| self.end_by(&orders)).unwrap_or(End::Closed)
    }

    fn end_by(&self, orders: &Orders) -> Option<End> {
        if orders.trouble == Trouble::Reset || self.number < orders.reset_before {
            Some(End::Reset)
        } else if orders.trouble == Trouble::Cut || self.number < orders.cut_before {
            Some(End::Closed)
        } else {
            None
        }
    }

    async fn pass_on(
        &self,
        client: &mut TcpStream,
        server: &mut Option<TcpStream>,
        orders: watch::Receiver<Orders>,
    ) -> io::Result<End> {
        let now = *orders.borrow();
        if now.trouble == Trouble::BlackHole {
            // The server receives nothing of it.
            swallow(client).await?;
            return Ok(End::Closed);
        }
        client.set_nodelay(true)?;
        let server = server.insert(connect(now.server).await?);
        let ((asks, answers), (answered, asked)) = (client.split(), server.split());
        let to_server = self.carry(Way::ToServer, asks, asked, orders.clone());
        let to_client = self.carry(Way::ToClient, answered, answers, orders);
        tokio::try_join!(to_server, to_client)?;
        Ok(End::Closed)
    }

    /// Carries bytes in one direction, until the sender closes. An error ends the whole connection.
    async fn carry(
        &self,
        way: Way,
        mut from: ReadHalf<'_>,
        mut to: WriteHalf<'_>,
        orders: watch::Receiver<Orders>,
    ) -> io::Result<()> {
        let (queue, mut queued) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
        let delay = |orders: &Orders| match way {
            Way::ToServer => orders.to_server,
            Way::ToClient => orders.to_client,
        };
        let taking = async {
            let mut by = delay(&orders.borrow());
            let mut rng = by.rng(self.number);
            loop {
                let mut piece = Vec::with_capacity(PIECE);
                match from.read_buf(&mut piece).await {
                    Ok(read @ 1..) => {
                        let passed = &self.state.passed[usize::from(way == Way::ToClient)];
                        passed.fetch_add(read as u64, Ordering::Relaxed);
                    }
                    // While answers are lost, the end of the server's connection is lost, too.
                    Ok(_) => break,
                    Err(_) if way == Way::ToClient && self.loses(way, &orders.borrow()) => break,
                    Err(error) => return Err(error),
                }
                let holds = delay(&orders.borrow());
                if holds != by {
                    (by, rng) = (holds, holds.rng(self.number));
                }
                let due = Instant::now() + by.draw(&mut rng);
                if queue.send((due, piece)).await.is_err() {
                    break;
                }
            }
            if way == Way::ToServer {
                self.client_is_gone.notify_one();
            }
            // Dropping the sender ends the other end of the queue.
            drop(queue);
            io::Result::Ok(())
        };
        let giving = async {
            let mut was_lost = false;
            while let Some((due, piece)) = queued.recv().await {
                tokio::time::sleep_until(due).await;
                was_lost = was_lost || self.loses(way, &orders.borrow());
                if was_lost {
                    continue;
                }
                if way == Way::ToServer && self.state.is_to_be_lost(&piece) {
                    self.loses_answer.store(true, Ordering::SeqCst);
                } else if way == Way::ToClient && self.loses_answer.load(Ordering::SeqCst) {
                    self.state.lost_answers.fetch_add(1, Ordering::SeqCst);
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                if let Err(error) = to.write_all(&piece).await {
                    was_lost = way == Way::ToServer && self.loses(Way::ToClient, &orders.borrow());
                    if !was_lost {
                        return Err(error);
                    }
                }
            }
            if was_lost || self.loses(way, &orders.borrow()) {
                // While nothing arrives in this direction, the client does not learn that the connection has ended.
                if way == Way::ToClient {
                    self.client_is_gone.notified().await;
                }
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            to.shutdown().await
        };
        tokio::try_join!(taking, giving).map(drop)
    }

    fn loses(&self, way: Way, orders: &Orders) -> bool {
        self.number < orders.silent_before
            || match orders.trouble {
                Trouble::BlackHole => true,
                Trouble::HalfOpen => way == Way::ToClient,
                _ => false,
            }
    }
}

/// Reads until the client closes.
async fn swallow(client: &mut TcpStream) -> io::Result<()> {
    let mut swallowed = vec![0; PIECE];
    while client.read(&mut swallowed).await? > 0 {}
    Ok(())
}
