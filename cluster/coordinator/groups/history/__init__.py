"""Rebalances that are remembered, and how they are sent to other brokers and tools."""
