"""Records what Kafka answers to `tests/support/reassignment_cases.py`.

Run `MILENA_TEST_INSTALL=1 python -m tests.compat.record_reassignments`.
"""

import json
import tempfile
from pathlib import Path

from cluster.protocol.api import ApiKey
from tests.compat.kafka_jvm import NEWEST
from tests.compat.kraft_process import KraftProcess
from tests.support.kafka_wire import WireClient, request
from tests.support.reassignment_cases import RECORDED, TOPICS, cases, plain


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as directory, KraftProcess(Path(directory)) as kafka:
        kafka.add_silent_broker()
        with WireClient(kafka.address) as client:
            created = client.call(
                request(
                    ApiKey.CREATE_TOPICS,
                    7,
                    topics=[
                        {
                            "name": name,
                            "num_partitions": -1,
                            "replication_factor": -1,
                            "assignments": [
                                {"partition_index": number, "broker_ids": replicas}
                                for number, replicas in enumerate(partitions)
                            ],
                            "configs": [],
                        }
                        for name, partitions in TOPICS.items()
                    ],
                    timeout=30_000,
                    validate_only=False,
                )
            )
            assert all(each.error_code == 0 for each in created.topics), created
            answers = {name: plain(client.call(asked)) for name, asked in cases()}
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in answers.items())
    provenance = json.dumps(f"answered by Apache Kafka {NEWEST} (KRaft)")
    RECORDED.write_text(f'{{"provenance": {provenance},\n"answers": {{\n{rows}\n}}}}\n')


if __name__ == "__main__":
    main()
