"""Capacity planning from the rollup's windows: growth, disks, headroom, other scenarios."""
