"""Access of brokers to the registry: kazoo's session, and the cluster's records."""
