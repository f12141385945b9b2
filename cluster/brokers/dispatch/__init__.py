"""Dispatches each request frame to its handler and sends the answer."""
