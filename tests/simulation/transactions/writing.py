"""Clients that write transactions of random shape."""

from collections.abc import Sequence

from cluster.model.ids import TopicPartition
from tests.simulation.transactions.client_process import Pause, Script
from tests.simulation.transactions.producing import Abortable, TransactionalProducer


class Writer:
    """One process that writes one transaction after another."""

    def __init__(
        self, producer: TransactionalProducer, partitions: Sequence[TopicPartition]
    ) -> None:
        self._producer = producer
        self._partitions = partitions
        self._value_count = 0
        self.is_stopping = False

    def run(self) -> Script[None]:
        """Write until it is told to stop."""
        random = self._producer.process.random
        yield from self._producer.initialize()
        while not self.is_stopping:
            yield from self._write_one()
            yield Pause(random.choice([0, 0, 10, 100]))

    def _write_one(self) -> Script[None]:
        random, producer = self._producer.process.random, self._producer
        transaction = producer.begin()
        is_commit, is_broken = random.random() < 0.75, False
        try:
            for _ in range(random.choice([1, 1, 2, 3])):
                count = random.randrange(1, len(self._partitions) + 1)
                chosen = random.sample(list(self._partitions), count)
                yield from producer.write(
                    transaction, {each: self._values() for each in sorted(chosen)}
                )
                yield Pause(random.choice([0, 0, 0, 5, 50, 4_500]))
            if is_commit:
                yield from producer.end(transaction, is_commit=True)
                return
        except Abortable:
            is_broken = True
        yield from producer.abort(transaction, is_broken=is_broken)

    def _values(self) -> list[bytes]:
        random = self._producer.process.random
        found = []
        for _ in range(random.choice([1, 1, 2, 4])):
            self._value_count += 1
            found.append(b"%s.%d" % (self._producer.process.name.encode(), self._value_count))
        return found
