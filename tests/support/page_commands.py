"""The commands of a page of documentation, to be run in the order in which a reader meets them."""

import re
import shlex
import shutil
from pathlib import Path

OWN_NETWORK = ["unshare", "--user", "--map-root-user", "--net"]
"""Runs a command where no port is taken; `ip link set lo up` comes first."""

_ROOT = Path(__file__).parents[2]
_PATIENCE_S = 60
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
            for line in _commands(text):
                parts += [f"echo {shlex.quote('$ ' + line)}", _patiently(line)]
        elif language == "python":
            parts.append(f".venv/bin/python - <<'END_OF_BLOCK'\n{text}END_OF_BLOCK")
    return "\n".join(parts) + "\n"


def _patiently(line: str) -> str:
    """Repeat a command that fails because its load has not begun, as on a busy machine."""
    if " explain " not in line:
        return line
    return (
        f"end=$((SECONDS + {_PATIENCE_S}))\nuntil {line}\ndo [ $SECONDS -lt $end ]; sleep 1; done"
    )


def _commands(block: str) -> list[str]:
    """The lines of a block, continued ones joined."""
    return block.replace("\\\n", " ").splitlines()
