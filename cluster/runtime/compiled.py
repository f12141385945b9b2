"""Whether the hot modules run compiled (setup.py) or as plain Python."""

from importlib.util import find_spec
from pathlib import Path


def is_compiled() -> bool:
    """Whether the running package was compiled by mypyc."""
    spec = find_spec("cluster.records.batch")
    return spec is not None and Path(spec.origin or ".py").suffix != ".py"


def build_name() -> str:
    """`compiled` or `plain Python`, for messages."""
    return "compiled" if is_compiled() else "plain Python"
