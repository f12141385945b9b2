"""The rollup on any Spark cluster (docs/rollup.md).

spark-submit --master spark://HOST:7077 etc/spark/rollup_job.py \
    --bootstrap-server HOST:9092 --output /var/rollup
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # when run from a checkout

from cluster.tools.submitted_rollup import main

sys.exit(main())
