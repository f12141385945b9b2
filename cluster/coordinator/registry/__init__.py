"""The built-in registry: a durable server of the ZooKeeper client protocol, and how to reach it."""
