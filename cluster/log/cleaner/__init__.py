"""Compaction: what is cleaned, how a batch is filtered, and how the result replaces segments."""
