"""A program that copies a topic by Spark's structured streaming; its argument is JSON.

It reads what is committed by Spark's source of Kafka, and writes it in upper case by its sink,
which repeats records after a failure. It tells of each micro-batch.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener


class Progress(StreamingQueryListener):
    """Writes a line for each micro-batch with records."""

    def onQueryStarted(self, event: Any) -> None:
        del event
        print(json.dumps({"event": "started"}), flush=True)

    def onQueryProgress(self, event: Any) -> None:
        count = event.progress.numInputRows
        if count:
            print(json.dumps({"event": "copied", "count": count}), flush=True)

    def onQueryTerminated(self, event: Any) -> None:
        print(json.dumps({"event": "ended", "why": event.exception}), flush=True)


def main() -> None:
    """Copy until the process is killed."""
    options = json.loads(sys.argv[1])
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", options["jars"])
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    session.streams.addListener(Progress())
    servers = {"kafka.bootstrap.servers": options["bootstrap"]}
    read = (
        session.readStream.format("kafka")
        .options(**servers, subscribe=options["source"], startingOffsets="earliest")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    (
        read.selectExpr("upper(cast(value as string)) as value", "partition")
        .writeStream.format("kafka")
        .options(**servers, topic=options["target"], checkpointLocation=options["checkpoint"])
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    main()
