"""`import-log`: takes the records of a partition directory that Kafka wrote into a topic."""
