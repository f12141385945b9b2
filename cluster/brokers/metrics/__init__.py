"""A broker's metrics: counters, the figures in its stats file, and the metric records."""
