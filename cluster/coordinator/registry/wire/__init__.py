"""The ZooKeeper client protocol as bytes: operations and errors, jute records, frames."""
