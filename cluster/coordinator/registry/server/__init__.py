"""A durable server of the ZooKeeper client protocol: tree, sessions, watches, journal, sockets."""
