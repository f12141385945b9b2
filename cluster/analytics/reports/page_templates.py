"""Pages that are written to files: their templates, style, script and content policy.

A page is one file that fetches nothing. Its template extends `page.html`. The policy admits only
the page's own style sheet and script, by their hashes, so that no text of the data can act as one.
"""

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cluster.model.finite_json import finite

REPORTS: Final = "cluster.analytics.reports"


def document(name: str, *packages: str, with_script: bool = True, **content: Any) -> str:
    """The page of a template of these packages or of the reports; text is escaped.

    Without its script the page has no controls and folds nothing.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, "") for package in (*packages, REPORTS)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["as_json"] = _as_json
    style, script = (
        files(REPORTS).joinpath(f"report.{ending}").read_text("utf-8") for ending in ("css", "js")
    )
    if not with_script:
        script = ""
    return environment.get_template(name).render(
        style=Markup(style), script=Markup(script), policy=_policy(style, script), **content
    )


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)};"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _as_json(value: Any) -> Markup:
    """JSON within a script element: no text in it can end the element."""
    text = json.dumps(finite(value), separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))
