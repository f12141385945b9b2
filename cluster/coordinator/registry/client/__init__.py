"""How brokers reach the registry: kazoo's session, and the cluster's records in it."""
