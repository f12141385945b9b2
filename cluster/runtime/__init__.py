"""Interfaces to the operating system: clock, readiness loop, files, processes. No Kafka code."""
