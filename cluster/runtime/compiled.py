"""Whether the hot modules run compiled (setup.py, cluster/compilation) or as plain Python."""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

COMPILED: Final = "compiled"
PLAIN: Final = "plain Python"


def is_compiled() -> bool:
    """Whether the modules that this process runs were compiled by mypyc."""
    spec = find_spec("cluster.records.batch")
    return spec is not None and Path(spec.origin or ".py").suffix != ".py"


def build_name() -> str:
    """`compiled` or `plain Python`, for messages."""
    return COMPILED if is_compiled() else PLAIN
