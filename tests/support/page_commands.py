"""The commands of a page of documentation, to be run in the order in which a reader meets them."""

import re
import shlex
import shutil
from pathlib import Path

OWN_NETWORK = ["unshare", "--user", "--map-root-user", "--net"]
"""Runs a command where no port is taken; `ip link set lo up` comes first."""

_ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def borrowing_checkout(folder: Path) -> Path:
    """Make a checkout without data, which uses the code and the packages of this one."""
    for name in ("bin", "etc"):
        shutil.copytree(_ROOT / name, folder / name)
    for name in (".venv", "cluster", "pyproject.toml"):
        (folder / name).symlink_to(_ROOT / name)
    return folder


def script_of(page: Path) -> str:
    """A shell script of the `sh` and `python` blocks of a page; it ends at the first failure."""
    parts = ["set -euo pipefail"]
    for language, text in _BLOCK.findall(page.read_text()):
        if language == "sh":
            parts += [f"echo {shlex.quote('$ ' + line)}\n{line}" for line in _commands(text)]
        elif language == "python":
            parts.append(f".venv/bin/python - <<'END_OF_BLOCK'\n{text}END_OF_BLOCK")
    return "\n".join(parts) + "\n"


def _commands(block: str) -> list[str]:
    """The lines of a block, continued ones joined."""
    return block.replace("\\\n", " ").splitlines()
