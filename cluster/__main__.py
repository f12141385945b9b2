"""`python -m cluster`: the command line."""

import sys

# A dependency declares test strategies wherever hypothesis is installed: 80 ms of every command.
sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]  # None: "not installed"

try:
    from cluster.compilation.finder import use_build

    use_build()

    from cluster.tools.main import main

    status = main()
except KeyboardInterrupt:  # while modules are imported, too
    status = 130
sys.exit(status)
