"""Whether the hot modules run compiled (setup.py) or as the Python that they are written in."""

from pathlib import Path

from cluster.records import batch


def is_compiled() -> bool:
    """Whether the installed package was compiled by mypyc."""
    return Path(batch.__file__).suffix != ".py"
