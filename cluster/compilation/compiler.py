"""Whether this machine can compile modules for this Python. Also read by setup.py."""

import os
import shutil
import sysconfig
from pathlib import Path


def missing_compiler() -> str | None:
    """What compiling needs and this machine does not have, in a few words."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"no C compiler: {compiler} is missing"
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    return None if header.exists() else f"no {header}"
