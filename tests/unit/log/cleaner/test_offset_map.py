from hypothesis import given
from hypothesis import strategies as st

from cluster.log.cleaner.offset_map import NOT_FOUND, ROW_BYTES, OffsetMap

KEYS = st.one_of(st.integers(0, 60).map(lambda n: b"%d" % n), st.binary(max_size=40))


@given(
    st.lists(st.tuples(KEYS, st.integers(0, 2**62))),
    st.integers(1, 70),
    st.sampled_from([0.3, 0.9, 0.99]),
)
def test_offset_map_answers_as_a_dictionary_until_it_is_full(entries, rows, load_factor):
    keys = OffsetMap(rows * ROW_BYTES, load_factor, keys_max=1_000)
    model: dict[bytes, int] = {}
    for key, offset in entries:
        if keys.put(key, offset):
            model[key] = offset
        else:
            assert len(model) == keys.capacity
            assert key not in model
        assert keys.size == len(model)
    for key, _ in entries:
        assert keys.get(key) == model.get(key, NOT_FOUND)
    assert keys.get(b"was never put") == NOT_FOUND


def test_offset_map_takes_no_more_memory_than_allowed_or_needed_by_its_keys():
    for memory_bytes in (1 << 20, 1_000_003, 128 << 20):
        assert OffsetMap(memory_bytes, 0.9, keys_max=10**9).memory_bytes <= memory_bytes
    small = OffsetMap(128 << 20, 0.9, keys_max=1_000)
    assert small.capacity >= 1_000
    assert small.memory_bytes <= 50_000


def test_a_million_keys_fit_into_what_kafka_would_need_for_them():
    keys = OffsetMap(128 << 20, 0.9, keys_max=1_000_000)
    assert keys.capacity >= 1_000_000
    assert keys.memory_bytes <= 1_000_000 / 0.9 * ROW_BYTES + 20_000


def test_end_offset_of_the_map_only_grows():
    keys = OffsetMap(1_000, 0.9, keys_max=10)
    for offset in (5, 3, 9):
        keys.note_seen(offset)
    assert keys.latest_offset == 9
