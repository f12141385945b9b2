"""Sizes for people. Pure."""

from typing import Final

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")


def size_text(size_bytes: int) -> str:
    """The size with its unit, such as `12.5 MiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} bytes"
    value, power = size_bytes / 1024, 0
    while value >= 1024 and power < len(_UNITS) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.1f} {_UNITS[power]}"
