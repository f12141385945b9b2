"""Installs what only some commands need, on their first use, with the launcher's own installer."""

import importlib
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from cluster.model.errors import UserError

_ROOT: Final = Path(__file__).parents[2]
_LIBRARY: Final = _ROOT / "bin" / "lib" / "venv.sh"
_INSTALL: Final = 'here=$1; . "$here/lib/venv.sh"; shift; need_installed core "$@"'


def need_extra(extra: str, *modules: str) -> None:
    """Make the modules of an extra of pyproject.toml importable.

    In a checkout this installs them, with progress on stderr, unless the pinned versions are
    installed already. Raises UserError if they are missing and cannot be installed.
    """
    is_ours = Path(sys.prefix) == _ROOT / ".venv"
    if is_ours and _LIBRARY.exists():
        done = subprocess.run(
            ["sh", "-c", _INSTALL, "sh", str(_ROOT / "bin"), extra], stdin=subprocess.DEVNULL
        )
        if done.returncode != 0:
            raise UserError(f"the packages of the extra `{extra}` are not installed")
        importlib.invalidate_caches()
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise UserError(f"{' and '.join(missing)} {are} missing: pip install 'milena[{extra}]'")
