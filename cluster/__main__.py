"""`python -m cluster`: the command line."""

import sys

from cluster.tools.main import main

sys.exit(main())
