//! A private Redis Cluster with three masters, in which slots can be moved and replicas can take over.

use super::process::{ServerError, wait_until};
use super::redis::{RedisOptions, RedisServer};

/// The number of masters that a cluster starts with.
const MASTERS: usize = 3;

/// The number of hash slots in a Redis Cluster.
const SLOTS: usize = 16_384;

/// A cluster with three masters. All nodes are killed when the value is dropped.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts three masters, each with a third of the hash slots, and waits until all nodes know each other.
    ///
    /// # Errors
    /// Returns an error if `redis-server` is missing or the nodes don't find each other.
    pub fn start() -> Result<Self, ServerError> {
        let nodes = (0..MASTERS).map(|_| node()).collect::<Result<Vec<_>, _>>()?;
        let cluster = Self { nodes };
        for (n, node) in cluster.nodes.iter().enumerate() {
            let (first, last) = (SLOTS * n / MASTERS, SLOTS * (n + 1) / MASTERS - 1);
            let range = [first.to_string(), last.to_string()];
            run_command(node, &["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]])?;
            meet(node, &cluster.nodes[0])?;
        }
        cluster.wait_until_agreed(MASTERS)?;
        Ok(cluster)
    }

    /// Returns the nodes: the initial masters in slot order, then the replicas in the order in which they were
    /// added.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Returns a node by index, for example to kill or pause it.
    pub fn node_mut(&mut self, n: usize) -> Option<&mut RedisServer> {
        self.nodes.get_mut(n)
    }

    /// Returns the URL that `breakerbox-redis` takes, with the addresses of all nodes.
    #[must_use]
    pub fn url(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}", nodes.join(","))
    }

    /// Adds a replica to a master, and waits until it has all of the master's data. Returns the replica's
    /// index.
    ///
    /// # Errors
    /// Returns an error if the replica does not catch up in time.
    pub fn add_replica_of(&mut self, master: usize) -> Result<usize, ServerError> {
        let replica = node()?;
        meet(&replica, &self.nodes[0])?;
        self.nodes.push(replica);
        self.wait_until_agreed(self.nodes.len())?;
        let (id, replica) = (self.id(master)?, &self.nodes[self.nodes.len() - 1]);
        run_command(replica, &["CLUSTER", "REPLICATE", &id])?;
        until(|| match replica.info("replication", "master_link_status") {
            Ok(Some(status)) if status == "up" => Ok(()),
            other => Err(format!("master_link_status: {other:?}")),
        })?;
        Ok(self.nodes.len() - 1)
    }

    /// Makes a replica take over its master's hash slots immediately, whether or not the master is running.
    ///
    /// # Errors
    /// Returns an error if the replica does not take over.
    pub fn take_over(&self, replica: usize) -> Result<(), ServerError> {
        let node = &self.nodes[replica];
        run_command(node, &["CLUSTER", "FAILOVER", "TAKEOVER"])?;
        until(|| match node.query::<Vec<::redis::Value>>(&["ROLE"]) {
            Ok(role) if role.first() == Some(&::redis::Value::BulkString(b"master".to_vec())) => Ok(()),
            other => Err(format!("role: {other:?}")),
        })
    }

    /// Starts to move a hash slot. From now on, for keys that the old node no longer has, it redirects clients
    /// to the new node.
    ///
    /// # Errors
    /// Returns an error if a node rejects the command.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) -> Result<(), ServerError> {
        let (slot, from_id, to_id) = (slot.to_string(), self.id(from)?, self.id(to)?);
        run_command(&self.nodes[to], &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id])?;
        run_command(&self.nodes[from], &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id])
    }

    /// Moves up to a thousand of a hash slot's keys to the new node. [`begin_move`](Self::begin_move) must have
    /// been called for the slot.
    ///
    /// # Errors
    /// Returns an error if a node rejects the command.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize) -> Result<(), ServerError> {
        let (slot, port) = (slot.to_string(), self.nodes[to].port().to_string());
        let keys: Vec<String> =
            self.nodes[from].query(&["CLUSTER", "GETKEYSINSLOT", &slot, "1000"]).map_err(refused)?;
        for key in keys {
            run_command(&self.nodes[from], &["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"])?;
        }
        Ok(())
    }

    /// Completes the move of a hash slot, and makes all nodes know that the slot belongs to the new node.
    ///
    /// # Errors
    /// Returns an error if a node rejects the command.
    pub fn end_move(&self, slot: u16, to: usize) -> Result<(), ServerError> {
        let (slot, id) = (slot.to_string(), self.id(to)?);
        // The new owner must be first, as the Redis manual requires.
        run_command(&self.nodes[to], &["CLUSTER", "SETSLOT", &slot, "NODE", &id])?;
        for node in &self.nodes {
            run_command(node, &["CLUSTER", "SETSLOT", &slot, "NODE", &id])?;
        }
        Ok(())
    }

    fn id(&self, n: usize) -> Result<String, ServerError> {
        self.nodes[n].query(&["CLUSTER", "MYID"]).map_err(refused)
    }

    /// Waits until every node reports a healthy cluster with this many nodes.
    fn wait_until_agreed(&self, count: usize) -> Result<(), ServerError> {
        self.nodes.iter().try_for_each(|node| {
            until(|| {
                let info: String = node.query(&["CLUSTER", "INFO"]).map_err(|error| error.to_string())?;
                let agreed = ["cluster_state:ok".to_owned(), format!("cluster_known_nodes:{count}")];
                if agreed.iter().all(|line| info.lines().any(|sent| sent == line)) {
                    Ok(())
                } else {
                    Err(info)
                }
            })
        })
    }
}

/// Starts a cluster node without hash slots.
fn node() -> Result<RedisServer, ServerError> {
    // Nodes use a separate port for the cluster bus.
    let options = RedisOptions::new().set("cluster-enabled", "yes").set_free_port("cluster-port");
    options.set("cluster-config-file", "nodes.conf").set("cluster-node-timeout", "2000").start()
}

/// Makes two nodes known to each other.
fn meet(node: &RedisServer, other: &RedisServer) -> Result<(), ServerError> {
    if node.port() == other.port() {
        return Ok(());
    }
    let [port, bus] =
        ["port", "cluster-port"].map(|name| other.port_of(name).unwrap_or_default().to_string());
    run_command(node, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus])
}

fn run_command(node: &RedisServer, command: &[&str]) -> Result<(), ServerError> {
    node.query(command).map_err(refused)
}

fn until(look: impl FnMut() -> Result<(), String>) -> Result<(), ServerError> {
    wait_until(look).map_err(|reason| std::io::Error::other(reason).into())
}

fn refused(error: ::redis::RedisError) -> ServerError {
    std::io::Error::other(error).into()
}
