//! A proxy before a server, which loses an answer or falls silent when it is told to.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// The next script that is sent is passed on, and its answer is not.
    lose_answer: AtomicBool,
    lost: AtomicUsize,
    connections: AtomicUsize,
    /// Up to this one, connections stay open, and nothing passes.
    frozen: AtomicUsize,
}

impl Proxy {
    pub(crate) async fn before(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let state = Arc::new(State::default());
        let own = listener.local_addr().unwrap().port();
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::spawn(pass_on(client, port, number, Arc::clone(&shared)));
            }
        });
        Self { port: own, state, task }
    }

    pub(crate) fn lose_next_answer(&self) {
        self.state.lose_answer.store(true, Ordering::SeqCst);
    }

    /// All connections that there are stay open from now on, and nothing passes. New ones work.
    pub(crate) fn freeze(&self) {
        self.state.frozen.store(self.connections(), Ordering::SeqCst);
    }

    /// How many answers were lost.
    pub(crate) fn lost(&self) -> usize {
        self.state.lost.load(Ordering::SeqCst)
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(mut client: TcpStream, port: u16, number: usize, state: Arc<State>) {
    let thaw = async || {
        if number <= state.frozen.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    };
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
                thaw().await;
                if server.write_all(&asked[..count]).await.is_err() {
                    return;
                }
                let is_script = asked[..count].windows(4).any(|word| word == b"EVAL");
                if is_script && state.lose_answer.swap(false, Ordering::SeqCst) {
                    // The answer is waited for, so that it is certain that the script ran.
                    let _ = server.read(&mut answered).await;
                    state.lost.fetch_add(1, Ordering::SeqCst);
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let Ok(count @ 1..) = read else { return };
                thaw().await;
                if client.write_all(&answered[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}
