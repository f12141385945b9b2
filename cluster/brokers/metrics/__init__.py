"""A broker's metrics: counters, the rows of its stats file, and the metric records."""
