"""`partitions`: what changes the leaders and replicas of partitions."""
