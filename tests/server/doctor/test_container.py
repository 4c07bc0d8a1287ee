"""Limits of the control group."""

from pathlib import Path

import pytest

from aclgrad.check.rows import Verdict
from aclgrad_server.doctor import container
from tests.server.doctor.subjects import examined


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_quota_of_either_version(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert container.cpu_quota(tmp_path) == quota


@pytest.mark.parametrize(("text", "limit"), [(None, None), ("max\n", None), ("100\n", 100)])
def test_limit_of_processes(tmp_path: Path, text: str | None, limit: int | None) -> None:
    if text:
        (tmp_path / "pids.max").write_text(text)
    assert container.process_limit(tmp_path) == limit


def test_a_container_that_grants_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "cpu_quota", lambda: 0.5)
    monkeypatch.setattr(container, "process_limit", lambda: 100)
    found = examined(container.container)
    assert found["processors"].verdict is Verdict.NOTED
    assert "raise the limit to 5, or lower --streams" in found["processors"].message
    assert found["processes and threads"].verdict is Verdict.FAILED
    assert "--pids-limit" in found["processes and threads"].message
    monkeypatch.setattr(container.os, "getuid", lambda: 2**31 - 2)
    assert examined(container.container, is_ascend=True)["user"].verdict is Verdict.FAILED


def test_too_little_memory_for_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "/dev/shm" not in examined(container.container), "shared memory is off"
    monkeypatch.setattr(container, "_SHARED_BYTES", 2**60)
    finding = examined(container.container, shared_memory=True)["/dev/shm"]
    assert finding.verdict is Verdict.FAILED
    assert "--shm-size" in finding.message
