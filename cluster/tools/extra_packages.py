"""Installs what only some commands need, on their first use, with the launcher's own installer."""

import importlib
import json
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from cluster.model.errors import UserError
from cluster.runtime.installation import shown

_ROOT: Final = Path(__file__).parents[2]
_LIBRARY: Final = _ROOT / "bin" / "lib" / "venv.sh"
_INSTALL: Final = 'here=$1; . "$here/lib/venv.sh"; shift; need_installed core "$@"'
_NAME: Final = "milena"


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
        command = install_command(extra, Path(sys.prefix), _source())
        raise UserError(f"{' and '.join(missing)} {are} missing: {command}")


def install_command(extra: str, prefix: Path, source: Path | None) -> str:
    """The command that installs an extra into the environment at `prefix`.

    `source` is the directory or archive that Milena was installed from; None: a package index.
    """
    wanted = f"{_NAME if source is None else shown(source)}[{extra}]"
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx install --force {shlex.quote(wanted)}"
    pip = prefix / "bin" / "pip"
    found = shutil.which("pip")
    is_first = found is not None and Path(found).absolute() == pip.absolute()
    program = "pip" if is_first else f"{shlex.quote(shown(Path(sys.executable)))} -m pip"
    return f"{program} install {shlex.quote(wanted)}"


def _source() -> Path | None:
    """The checkout that runs, else what `pip` has noted of the installation (PEP 610)."""
    if (_ROOT / "pyproject.toml").exists():
        return _ROOT
    try:
        noted = distribution(_NAME).read_text("direct_url.json")
        url = urlsplit(json.loads(noted or "{}").get("url", ""))
    except (PackageNotFoundError, ValueError):
        return None
    path = Path(unquote(url.path))
    return path if url.scheme == "file" and path.exists() else None
