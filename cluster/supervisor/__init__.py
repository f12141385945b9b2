"""Owns the processes: forks, watches, restarts and stops them. Never imports brokers."""
