"""The page's views of topics: the list, one topic, producing a message."""
