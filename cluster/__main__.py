"""`python -m cluster`: the command line."""

import sys

# A dependency declares test strategies wherever hypothesis is installed: 80 ms of every command.
sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]  # None: "not installed"

from cluster.tools.main import main  # noqa: E402 - after the line above

sys.exit(main())
