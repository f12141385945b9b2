"""Assignors that the group coordinator has for the newer consumer protocol (KIP-848). Pure."""
