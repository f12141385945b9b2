"""What a build was made from: as text, and compared with the present files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.compilation.manifest import (
    Manifest,
    Source,
    Stamp,
    changed_stamps,
    head_of,
    parse,
)

names = st.text(st.characters(categories=["L", "N"], include_characters="/_.- "), min_size=1)
stamps = st.builds(Stamp, st.integers(0, 1 << 40), st.integers(0, 1 << 62))
manifests = st.builds(
    Manifest,
    folder=names,
    python=names,
    modules=st.dictionaries(names, names, max_size=4),
    sources=st.dictionaries(names, st.builds(Source, stamps, names), max_size=4),
    built=st.dictionaries(names, stamps, max_size=4),
    problem=st.one_of(st.just(""), names),
)
BUILD = Manifest(
    "build-1",
    "3.11",
    {"cluster.a": "cluster/a.so"},
    {
        "cluster/a.py": Source(Stamp(10, 1), "digest of a"),
        "pyproject.toml": Source(Stamp(20, 2), "digest of the list"),
    },
    {"cluster/a.so": Stamp(30, 3)},
)


@given(manifests)
def test_a_manifest_is_read_as_it_was_written(manifest):
    assert parse(manifest.to_text()) == manifest
    head = head_of(manifest.to_text())
    assert (head.folder, head.python, head.modules) == (
        manifest.folder,
        manifest.python,
        manifest.modules,
    )


@given(manifests, st.data())
def test_a_part_of_a_manifest_is_refused(manifest, data):
    text = manifest.to_text().rstrip("\n")
    end = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(ValueError, match=r"incomplete|unknown line|invalid literal"):
        parse(text[:end])


def test_a_failed_build_has_its_sources_and_reason_but_no_modules():
    failed = BUILD.failed("gcc ended by signal 9")
    assert (failed.modules, failed.built, failed.sources) == ({}, {}, BUILD.sources)
    assert parse(failed.to_text()).problem == "gcc ended by signal 9"


class Present:
    """Files as they are now, and which of them were read."""

    def __init__(self) -> None:
        self.stamps = {path: source.stamp for path, source in BUILD.sources.items()}
        self.digests = {path: source.digest for path, source in BUILD.sources.items()}
        self.read: list[str] = []

    def changed(self):
        return changed_stamps(BUILD, self.stamps.get, self._digest_of)

    def _digest_of(self, path: str) -> str | None:
        self.read.append(path)
        return self.digests.get(path)


def test_no_file_is_read_while_all_stamps_are_the_same():
    present = Present()
    assert present.changed() == {}
    assert present.read == []


def test_a_file_with_a_new_time_is_read_and_stamped_anew_if_its_content_is_the_same():
    present = Present()
    present.stamps["cluster/a.py"] = Stamp(10, 99)
    assert present.changed() == {"cluster/a.py": Stamp(10, 99)}
    assert present.read == ["cluster/a.py"]
    again = BUILD.restamped({"cluster/a.py": Stamp(10, 99)})
    assert changed_stamps(again, present.stamps.get, lambda _path: None) == {}


def test_a_file_with_other_content_of_the_same_size_is_a_change():
    present = Present()
    present.stamps["cluster/a.py"] = Stamp(10, 99)
    present.digests["cluster/a.py"] = "another digest"
    assert present.changed() is None


def test_a_file_of_another_size_is_a_change_without_being_read():
    present = Present()
    present.stamps["cluster/a.py"] = Stamp(11, 99)
    assert present.changed() is None
    assert present.read == []


def test_a_missing_file_is_a_change():
    present = Present()
    del present.stamps["cluster/a.py"]
    assert present.changed() is None


def test_only_the_list_in_pyproject_counts():
    present = Present()
    present.stamps["pyproject.toml"] = Stamp(500, 99)
    assert present.changed() == {"pyproject.toml": Stamp(500, 99)}
    present.digests["pyproject.toml"] = "digest of another list"
    assert present.changed() is None
