"""The widths of windows. Commands use them in their options, without PyArrow."""

from typing import Final

WIDTHS_S: Final = {"10s": 10, "1m": 60, "1h": 3600, "1d": 86_400}
"""Widths by name, narrowest first; each is a multiple of those before."""
NARROWEST: Final = "10s"
