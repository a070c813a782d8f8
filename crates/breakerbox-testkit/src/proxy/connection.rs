//! One connection through the proxy. Each way has a short queue of pieces, each with the time at which it arrives. What goes
//! wrong goes wrong there: a piece that was under way when the trouble began is lost too.

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

/// How many pieces may be under way each way. Whoever sends more has to wait.
const UNDER_WAY: usize = 64;

/// Why a connection ends.
enum End {
    /// The two are done with each other, or it was cut.
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
    /// The next answer is the one to be lost.
    loses_answer: AtomicBool,
    client_is_gone: Notify,
}

/// Keeps a connection until it ends.
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
            // One that is gone already can't be reset.
            let _ = stream.set_zero_linger();
        }
    }
}

impl Connection {
    async fn told_to_end(&self, mut orders: watch::Receiver<Orders>) -> End {
        let told = orders.wait_for(|orders| self.end_by(orders).is_some()).await;
        // The proxy goes with its connections, so somebody is always there to give orders.
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
            // The server never hears of it.
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

    /// Carries bytes one way, until the sender closes. An error ends the whole connection.
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
                    // That a server is gone is news, and news are lost too.
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
            // So that the other end of the queue hears of it.
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
                // Who waits for answers over a way on which nothing arrives does not hear that there will be none.
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
