"""`dump-log`: what the files of a log say, in the words of Kafka's kafka-dump-log."""
