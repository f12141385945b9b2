"""Options of `rollup` that contradict each other: refused before anything is looked at."""

import pytest

from cluster.tools.main import main


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
        (["--follow", "--when-told"], "--when-told reads once: leave out --follow"),
    ],
)
def test_an_option_without_effect_is_refused_in_one_line(tmp_path, capsys, words, reason):
    assert main(["--data-dir", str(tmp_path), "rollup", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {reason}")
    assert err.count("\n") == 1


def test_a_setting_of_a_submitted_job_that_is_none_is_refused(tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="needs the extra `rollup`")
    from cluster.tools.submitted_rollup import main as submitted

    words = ["--bootstrap-server", "127.0.0.1:1", "--output", str(tmp_path), "--property"]
    for wrong in ("security.protocol", "=SASL_SSL"):
        with pytest.raises(SystemExit) as ended:
            submitted([*words, wrong])
        assert ended.value.code == 2
        assert f"must be KEY=VALUE, not {wrong}" in capsys.readouterr().err
