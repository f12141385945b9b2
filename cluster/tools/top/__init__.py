"""The command `top`: a live table of clients, topics, groups or brokers."""
