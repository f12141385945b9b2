"""The time from a clone to the first explained throttle: the README's commands, in fresh clones.

    PYTHONPATH=. .venv/bin/python -m bench.first_throttle

Two clones, one after the other, share caches of packages that are empty at first: the first one
downloads everything, the second one finds it there. The installation, which the first command
does, comes first by itself; the commands then run in a network of their own, where the usual ports
are free. Each clone is compiled in the background meanwhile, as a user's is; the second one begins
after that of the first one has ended.
"""

import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.support.page_commands import OWN_NETWORK, script_of

ROOT: Final = Path(__file__).parents[1]
LAST: Final = "bin/cluster quotas explain "


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="milena-first-") as folder:
        for cache in ("cold", "warm"):
            print(f"{cache} cache")
            for what, seconds in times_of(Path(folder) / cache, Path(folder) / "caches"):
                print(f"{seconds:7.1f} s  {what}")


def times_of(clone: Path, caches: Path) -> list[tuple[str, float]]:
    """What ended when, in seconds since the clone began."""
    began = time.monotonic()
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    ends = [("git clone", time.monotonic() - began)]
    unwanted = ("PYTHONPATH", "MILENA_DATA_DIR", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    environment |= {"XDG_CACHE_HOME": str(caches)}
    subprocess.run(["bin/cluster", "--version"], cwd=clone, env=environment, check=True)
    ends.append(("installation, by `bin/cluster --version`", time.monotonic() - began))
    shell = subprocess.Popen(
        [*OWN_NETWORK, "bash", "-c", first_commands(clone / "README.md")],
        cwd=clone,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert shell.stdout is not None
    running = None
    for line in shell.stdout:
        if line.startswith("$ "):
            if running is not None:
                ends.append((running, time.monotonic() - began))
            running = line.strip()
    if shell.wait() != 0:
        raise SystemExit(f"failed: {running}")
    return ends


def first_commands(page: Path) -> str:
    """The commands of a page up to the explanation, and those that end the cluster."""
    before, explanation, after = script_of(page).partition(f"echo '$ {LAST}")
    assert explanation, f"{page} has no line that begins with {LAST}"
    rest = after.partition("\necho '$ ")[0]
    end = "echo '$ end'; bin/cluster stop --purge; wait"
    return "\n".join(["ip link set lo up", before + explanation + rest, end])


if __name__ == "__main__":
    main()
