"""What Spark's data source over the topic of metric records is made of (`metrics_source.py`)."""
