"""Consumer groups and committed offsets: pure state machines over `__consumer_offsets`."""
