"""Runs of `aclgrad replay` that end early or cannot begin, and those that go on with them."""

import json
import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

import aclgrad
from aclgrad.judge.replay import command
from tests.judge.torch.running import replay, sample
from tools.serving import Server


def test_an_interrupted_run_is_resumed_with_its_tables(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump, out, calls = sample(tmp_path / "dump", copies=3), tmp_path / "out", count()

    class Interrupted(aclgrad.Client):
        def execute(self, name: str, *args: Any, **options: Any) -> Any:
            if next(calls) == 4:
                raise KeyboardInterrupt
            return super().execute(name, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(command, "Client", Interrupted)
        first = replay(dump, server, out)
    assert first.exit_code == 130
    done = [row[0] for row in first.table("result")]
    assert 0 < len(done) < 12
    # Calls of two dumps have the same names: what is right in the one must not pass for the other.
    other = sample(tmp_path / "other", copies=3)
    for again, flags, differs in ((other, [], "dumps"), (dump, ["--local", "cpu"], "local")):
        refused = replay(again, server, out, "--resume", *flags)
        assert (refused.exit_code, f"a run with other {differs}" in refused.output) == (2, True)
    second = replay(dump, server, out, "--resume")
    assert second.exit_code == 0, second.output
    names = [row[0] for row in second.table("result")]
    assert names[: len(done)] == done
    expected = [f"Functional.{api}.{n}" for n in range(3) for api in ("max_pool2d", "pad", "avg_pool2d", "layer_norm")]
    assert sorted(names) == sorted(expected)
    # The report is of both runs.
    assert "30 calls: 30 judged, 0 not judged\nserver: 12 of 15 forward and 9 of 15 backward calls" in second.output


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_pass_that_an_earlier_run_lacks_is_judged(server: Server, tmp_path: Path, task: str) -> None:
    """A process may end between the rows of a call. As in a training, all backward passes follow the forward ones."""
    dump, out = sample(tmp_path / "dump", task=task), tmp_path / "out"
    told = json.loads(dump.read_text())
    told["data"] = dict(sorted(told["data"].items(), key=lambda each: each[0].endswith(".backward")))
    dump.write_text(json.dumps(told))
    first = replay(dump, server, out)
    before = first.sides("server"), first.table("details")
    missing = ("max_pool2d.0.backward", "avg_pool2d.0.forward", "avg_pool2d.0.backward")
    kept = [row for row in first.rows if not row["name"].endswith(missing)]
    assert len(kept) == 7
    (out / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    found = replay(dump, server, out, "--resume")
    assert found.exit_code == 0, found.output
    assert len(found.rows) == 10
    assert (found.sides("server"), found.table("details")) == before


def test_a_run_that_judged_nothing_leaves_its_folder_to_the_next(server: Server, tmp_path: Path) -> None:
    dump, out = sample(tmp_path / "dump"), tmp_path / "out"
    found = replay(dump, server, out, "--api", "avg_pool3d")
    assert found.exit_code == 2
    assert "has no call of avg_pool3d; it has avg_pool2d, erf, layer_norm, max_pool2d, pad" in found.output
    assert replay(dump, server, out).exit_code == 0


def test_without_a_cuda_device_there_is_no_local_side_of_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = replay(sample(tmp_path / "dump"), server, tmp_path / "out", "--local", "cuda")
    assert found.exit_code == 2
    assert "finds no CUDA device" in found.output
    assert not (tmp_path / "out").exists()


def test_a_dump_is_read_before_a_server_is_asked(tmp_path: Path) -> None:
    (tmp_path / "dump.json").write_text("{")
    found = replay(tmp_path, "127.0.0.1:1", tmp_path / "out")
    assert found.exit_code == 2
    assert "dump.json is cut off: the process ended before stop(); dump again." in found.output
    assert "127.0.0.1:1" not in found.output


def test_a_server_that_is_down_begins_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_CONNECT_TIMEOUT_S", 0.5)
    assert replay(sample(tmp_path / "dump"), "127.0.0.1:1", tmp_path / "down", "--timeout-s", "1").exit_code == 3
    assert not (tmp_path / "down").exists()


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_that_goes_away_ends_the_run_and_is_not_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: signal.Signals
) -> None:
    dump, calls = sample(tmp_path / "dump", copies=4), count()
    with Server() as server:

        class Leaving(aclgrad.Client):
            def execute(self, name: str, *args: Any, **options: Any) -> Any:
                if next(calls) == 6:
                    server.send(way)
                return super().execute(name, *args, **options)

        monkeypatch.setattr(command, "Client", Leaving)
        found = replay(dump, server, tmp_path / "out", "--timeout-s", "1")
        assert (found.exit_code, "the server went away" in found.output, "--resume" in found.output) == (3, True, True)
        assert not [row for row in found.rows if row["verdict"] == "failed"]
        if way == signal.SIGSTOP:
            server.send(signal.SIGCONT)
            assert replay(dump, server, tmp_path / "out", "--resume").exit_code == 0
        else:
            server.exit_code()
