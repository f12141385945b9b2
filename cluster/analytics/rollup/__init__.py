"""The rollup: metric records of the topic, read by Spark or without it, become windows."""
