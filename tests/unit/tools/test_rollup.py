"""Options of `rollup` that contradict each other: refused before anything is looked at."""

import argparse
import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from cluster.model.errors import UserError
from cluster.tools.arguments import UsageError
from cluster.tools.main import main
from cluster.tools.rollup import (
    commands_for,
    most_frequent,
    output_place,
    prepare_spark,
    retained,
)
from cluster.tools.rollup_follow import Report


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--trigger-interval", "5s"], "--trigger-interval is for rollup --follow"),
        (["--watermark", "2m"], "--watermark is for rollup --follow"),
        (["--max-records", "9"], "--max-records is for rollup --follow"),
        (["--checkpoint", "here"], "--checkpoint is for rollup --follow"),
        (["--packages", "a:b:1"], "--packages is for --source kafka"),
        (["--follow", "--full"], "--full reads the whole topic once: run it before"),
        (["--follow", "--source", "kafka"], "--follow reads with our data source only"),
        (["--follow", "--packages", "a:b:1"], "--follow reads with our data source only"),
        (["--follow", "--engine", "local"], "--follow is a stream of Spark: leave out --engine"),
        (
            ["--follow", "--output", "s3://b/w"],
            "--output is not a directory: say with --checkpoint",
        ),
        (["--repair", "--full"], "--repair reads nothing: leave out --follow, --full and"),
        (["--engine", "local", "--master", "yarn"], "--engine local needs no Spark: leave out"),
        (["--engine", "local", "--source", "kafka"], "--engine local needs no Spark: leave out"),
    ],
)
def test_an_option_without_effect_is_refused_in_one_line(tmp_path, capsys, words, reason):
    assert main(["--data-dir", str(tmp_path), "rollup", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {reason}")
    assert err.count("\n") == 1


def test_how_long_windows_are_kept_by_width():
    day = timedelta(days=1)
    assert retained("30d") == dict.fromkeys(("10s", "1m", "1h", "1d"), 30 * day)
    assert retained("10s=7d, 1m=365d") == {"10s": 7 * day, "1m": 365 * day}
    for wrong, reason in (
        ("10s=7d,1m=3d", "must keep windows at least as long as narrower ones"),
        ("10s=7d,1h=365d", "of which those that are not named are kept for ever"),
        ("10s=7d,10s=8d", "must name each width once, not 10s=7d,10s=8d"),
        ("1m=7d,1w=30d", "with widths 10s, 1m, 1h, 1d, not 1m=7d,1w=30d"),
        ("1m=", "must be like 90s, 30m, 6h or 2d"),
        ("soon", "must be like 90s, 30m, 6h or 2d"),
    ):
        with pytest.raises(argparse.ArgumentTypeError, match=reason):
            retained(wrong)


def test_a_place_that_is_a_uri_is_never_a_local_folder(tmp_path):
    def place(output: str | None) -> str:
        return output_place(argparse.Namespace(output=output, data_dir=tmp_path))

    assert place("s3a://bucket/windows") == "s3a://bucket/windows"
    assert place(str(tmp_path / "w")) == str(tmp_path / "w")
    assert place("w") == str(Path.cwd() / "w")
    assert place(None) == str(tmp_path / "rollup")
    assert place(f"file://{tmp_path}/a%20b") == str(tmp_path / "a b")
    with pytest.raises(UsageError, match="is empty: give a folder"):
        place("")


def test_spark_that_is_missing_can_be_done_without(monkeypatch):
    def missing(*_: str) -> None:
        raise UserError("pyspark is missing: pip install 'milena[rollup]'")

    monkeypatch.setattr("cluster.tools.rollup.need_extra", missing)
    with pytest.raises(UserError, match=r"^pyspark is missing: .*; or run it with --engine local"):
        prepare_spark()


@pytest.mark.slow
def test_repair_removes_windows_that_cannot_be(tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="needs the extra `windows`")
    from cluster.analytics.windows.directory import WindowDirectory
    from cluster.analytics.windows.store import LocalStore
    from tests.support.metric_records import quota_record
    from tests.support.window_directories import assert_read, merge_all, piece, reached

    good, poison = quota_record(), quota_record(ts=4_070_908_800_000)  # 2099
    place = tmp_path / "rollup"
    with WindowDirectory.open(LocalStore(place)) as directory:
        directory.append([piece(directory, [good, poison])], reached(2))
        merge_all(directory)
    words = ["--data-dir", str(tmp_path), "rollup", "--repair"]
    assert main(words) == 0
    assert re.search(r"quota +4", capsys.readouterr().out)
    assert_read(place, [good])
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed_windows"] == {}
    assert main([*words, "--output", str(tmp_path / "elsewhere")]) == 1
    assert "there are no windows in " in capsys.readouterr().err
    assert not (tmp_path / "elsewhere").exists()


def test_final_report_omits_the_credentials_of_the_output(capsys):
    pytest.importorskip("pyarrow", reason="needs the extra `windows`")
    place = "s3://key:secret@bucket/windows?region=us-east-1"
    Report(is_json=False, output=place).end()
    assert "windows in s3://bucket/windows\n" in capsys.readouterr().out
    assert commands_for(["quota"], "bin/cluster", place) == []
    kinds = ["quota", "topic", "group"]
    assert commands_for(kinds, "bin/cluster", "s3://bucket/w") == [
        "bin/cluster quotas report --rollup s3://bucket/w",
        "bin/cluster groups report --rollup s3://bucket/w",
    ]
    assert commands_for(["broker"], "bin/cluster", None) == ["bin/cluster capacity report"]


def test_a_setting_of_a_submitted_job_that_is_none_is_refused(tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="needs the extra `rollup`")
    from cluster.tools.submitted_rollup import main as submitted

    words = ["--bootstrap-server", "127.0.0.1:1", "--output", str(tmp_path), "--property"]
    for wrong in ("security.protocol", "=SASL_SSL"):
        with pytest.raises(SystemExit) as ended:
            submitted([*words, wrong])
        assert ended.value.code == 2
        assert f"must be KEY=VALUE, not {wrong}" in capsys.readouterr().err


def test_reasons_that_are_not_listed_are_counted():
    six = {f"{letter}: missing": 7 for letter in "abcdef"}
    assert most_frequent(six) == [(reason, 7) for reason in six]
    listed = most_frequent({**six, "g: missing": 9, "h: missing": 1})
    assert [reason for reason, _ in listed[:2]] == ["g: missing", "a: missing"]
    assert listed[5:] == [("3 other reasons (--json)", 15)]
