"""Mutes the connections of throttled clients, and watches whether they pause."""
