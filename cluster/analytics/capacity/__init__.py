"""Capacity planning from the rollup's windows: what grows, what fills up, what if."""
