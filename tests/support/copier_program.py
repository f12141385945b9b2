"""A program that copies a topic exactly once, as a member of a group; its argument is JSON.

It reads what is committed, and writes it to the same partition of another topic in transactions
that have the group's offsets (KIP-447). It goes on after any error, as applications are told to:
it aborts where the client asks for that and makes a new producer after a fatal error. A line of
JSON tells of each step.
"""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # it is started by its path

from cluster.client.missing_offsets import assign_again, lacks_offsets

_PATIENCE_S: Final = 30.0
_BATCH: Final = 50


def tell(event: str, **facts: Any) -> None:
    """Write one line."""
    print(json.dumps({"event": event, **facts}), flush=True)


class Copier:
    """One producer with its consumer."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._target = options["target"]
        always = {"bootstrap.servers": options["bootstrap"], "log_level": 0}
        self._producer = Producer(
            {
                **always,
                "transactional.id": options["transactional_id"],
                "transaction.timeout.ms": options["timeout_ms"],
                "linger.ms": 0,
                # librdkafka 2.10 to 2.16 waits in `send_offsets_to_transaction` for a coordinator
                # that Metadata has omitted once, until it forgets that (these are the 1,000 ms) and
                # then sees some other connection open or close.
                "metadata.max.age.ms": 1_000,
                "connections.max.idle.ms": 2_500,
            }
        )
        self._consumer = Consumer(
            {
                **always,
                "group.id": options["group"],
                "session.timeout.ms": options["session_ms"],
                "heartbeat.interval.ms": 500,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
                "topic.metadata.refresh.interval.ms": 5_000,
            }
        )
        self._consumer.subscribe(
            [options["source"]],
            on_assign=lambda _, places: tell("assigned", count=len(places)),
            on_revoke=lambda _, places: tell("revoked", count=len(places)),
        )

    def run(self) -> None:
        """Copy until a fatal error."""
        self._repeat(self._producer.init_transactions)
        tell("ready")
        while True:
            messages = self._consumer.consume(_BATCH, 0.05)
            errors = [error for each in messages if (error := each.error()) is not None]
            if any(map(lacks_offsets, errors)):
                assign_again(self._consumer)
            records = [each for each in messages if each.error() is None]
            if records:
                self._copy(records)

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _copy(self, messages: list[Any]) -> None:
        self._producer.begin_transaction()
        try:
            offsets: dict[int, TopicPartition] = {}
            for message in messages:
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                self._producer.produce(self._target, message.value(), partition=partition)
                offsets[partition] = TopicPartition(topic, partition, offset + 1)
            metadata = self._consumer.consumer_group_metadata()
            self._repeat(
                self._producer.send_offsets_to_transaction, list(offsets.values()), metadata
            )
            self._repeat(self._producer.commit_transaction)
        except KafkaException as failed:
            error: KafkaError = failed.args[0]
            if error.fatal() or not error.txn_requires_abort():
                raise
            tell("aborted", why=error.str())
            self._repeat(self._producer.abort_transaction)
            self._rewind()
        else:
            tell("committed", count=len(messages))

    def _rewind(self) -> None:
        """Read the records of the aborted transaction again."""
        assigned = self._consumer.assignment()
        if not assigned:
            return
        while True:
            with suppress(KafkaException):
                committed = self._consumer.committed(assigned, _PATIENCE_S)
                break
        for place in committed:
            if place.offset < 0:
                place.offset = 0
            with suppress(KafkaException):  # it was revoked meanwhile
                self._consumer.seek(place)

    def _repeat(self, step: Any, *arguments: Any) -> None:
        while True:
            try:
                step(*arguments, _PATIENCE_S)
            except KafkaException as failed:
                if not failed.args[0].retriable():
                    raise
            else:
                return


def main() -> None:
    """Copy with one producer after the other until the process is killed."""
    options = json.loads(sys.argv[1])
    while True:
        copier = Copier(options)
        try:
            copier.run()
        except KafkaException as failed:
            tell("failed", why=failed.args[0].str())
        copier.close()


if __name__ == "__main__":
    main()
