"""Mutes the connections of throttled clients, and watches who keeps quiet."""
