"""The parts of Spark's data source over the topic of metric records (`metrics_source.py`)."""
