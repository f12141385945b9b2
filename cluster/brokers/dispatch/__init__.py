"""Dispatches each frame to its handler and sends the answer."""
