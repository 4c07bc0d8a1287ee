"""A server whose device writes the first half of each output: a replay finds it in every call."""

from pathlib import Path

from aclgrad.msprobe.exported import exported, write_dump
from aclgrad.operators.cases import first_cases
from aclgrad.products import Product
from tests.torch.running import replay
from tools.serving import Server, write_host_config


def test_a_replay_fails_every_call(tmp_path: Path) -> None:
    cases = [case for case in exported(first_cases(Product.ATLAS_A2)) if not case.refusal]
    folder = tmp_path / "dump"
    folder.mkdir()
    write_dump(folder, cases)
    fault = {"kind": "half_output", "at": 1, "count": 2**62}
    config = write_host_config(tmp_path, host_pointers=False, faults=[fault])
    with Server("--backend", "host", "--acl-config", config) as server:
        found = replay(folder / "dump.json", server, tmp_path / "out")
    assert found.exit_code == 1
    judged = {
        row["name"].removesuffix(".backward"): [side["server"]["verdict"] for side in sides]
        for row in found.rows
        if (sides := [each["sides"] for each in row["tensors"] if "server" in each["sides"]])
    }
    assert judged.keys() == {case.name for case in cases}
    assert {name for name, verdicts in judged.items() if "failed" not in verdicts} == set()
