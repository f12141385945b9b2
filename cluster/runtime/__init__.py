"""Seams to the operating system: clock, readiness loop, files, processes. No knowledge of Kafka."""
