"""Load on a cluster: producers and consumers as processes, scenarios, the machine's own metrics."""
