"""Descriptions of groups for requests and metrics."""
