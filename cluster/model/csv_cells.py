"""Cells of CSV files that spreadsheets open without evaluating them. Pure."""

from typing import Final

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def inert(value: object) -> object:
    """The cell with a quote in front of a text that a spreadsheet would take for a formula.

    Client ids and users are chosen by clients (OWASP: CSV injection). Numbers stay as they are.
    """
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value
