"""Whether the hot modules run compiled (setup.py) or as the Python that they are written in."""

from importlib.util import find_spec
from pathlib import Path


def is_compiled() -> bool:
    """Whether the package that runs was compiled by mypyc."""
    spec = find_spec("cluster.records.batch")
    return spec is not None and Path(spec.origin or ".py").suffix != ".py"


def build_name() -> str:
    """`compiled` or `plain Python`, for messages."""
    return "compiled" if is_compiled() else "plain Python"
