"""The templates of pages that are written to files. A page extends `page.html`."""

from typing import Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

REPORTS: Final = "cluster.analytics.reports"


def templates(*packages: str) -> Environment:
    """The templates of these packages and of the reports; text is escaped, since it is foreign."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package, "") for package in (*packages, REPORTS)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
