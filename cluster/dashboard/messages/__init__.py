"""The page's message browser: reads records of a topic, without a group and without a trace."""
