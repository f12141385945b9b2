"""Why the hot modules run as plain Python, as text for `--version` and `status`."""

import os
from pathlib import Path

from cluster.compilation.background_process import obstacle
from cluster.compilation.build_files import BuildFiles, is_checkout
from cluster.compilation.finder import OFF, VARIABLE


def why_plain(files: BuildFiles, program: str) -> str:
    """The reason that a cluster runs plain Python, and what to do; empty if there is no news.

    Judged by the files as they are now. `program` is the launcher, quoted for a shell.
    """
    if not is_checkout():
        return ""
    if os.environ.get(VARIABLE) == OFF:
        return f"{VARIABLE}={OFF}"
    failed = files.failed()
    if failed is None and files.current() is not None:
        return "the next start uses compiled modules"
    if files.is_building():
        return "compiled modules are being built"
    if failed is not None:
        log = _relative(files.log, files.root)
        return f"compiling failed: {failed.problem}; see {log}, then try `{program} compile`"
    return obstacle(files) or "compiled in the background after the next start"


def _relative(path: Path, root: Path) -> str:
    return str(path.relative_to(root))
