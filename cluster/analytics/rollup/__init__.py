"""The rollup: metric records of the topic, read with or without Spark, become windows."""
