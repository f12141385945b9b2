"""Turns the options of `start` into a plan, and starts what it names."""
