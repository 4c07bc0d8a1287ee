"""Which devices a server has: those that ASCEND_RT_VISIBLE_DEVICES leaves, up to its first error, as in CANN."""

from pathlib import Path

import numpy as np
import pytest

import aclgrad
from tests.e2e.fault_plans import once, write_config
from tools.serving import Server, run_to_end

pytestmark = once

DEVICES = 4
GRAD = np.ones((1, 1, 1), np.float32)

# What is visible of four devices; the runtime numbers them anew, from 0.
VISIBLE = {
    "0,2": 2,
    "3": 1,
    "0,1,2,3": 4,
    "0,,2": 1,
    "2,0": 1,
    "1,1": 1,
    "0,9,1": 1,
    "1,x": 1,
}
NONE_VISIBLE = ["9", "", ",0", "x", "-1"]


@pytest.fixture
def config(tmp_path: Path) -> str:
    return write_config(tmp_path, devices=DEVICES)


@pytest.mark.parametrize(("visible", "count"), VISIBLE.items(), ids=VISIBLE)
def test_the_visible_devices_are_served(config: str, visible: str, count: int) -> None:
    flags = ("--acl-config", config, "--streams", "1")
    with (
        Server(*flags, ASCEND_RT_VISIBLE_DEVICES=visible) as server,
        aclgrad.Client(server.address) as client,
    ):
        status = client.server_status()
        assert [device.index for device in status.devices] == list(range(count))
        assert status.queue.running_limit == count
        assert client.adaptive_avg_pool2d_backward(GRAD, (1, 1, 2)).tolist() == [[[0.5, 0.5]]]


@pytest.mark.parametrize("visible", NONE_VISIBLE, ids=repr)
def test_a_server_that_sees_no_device_says_which_variable_hides_them(config: str, visible: str) -> None:
    flags = ("--backend", "host", "--listen", "127.0.0.1:0", "--acl-config", config)
    finished = run_to_end(*flags, ASCEND_RT_VISIBLE_DEVICES=visible)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert "the runtime shows 0" in finished.stderr
    assert "ASCEND_RT_VISIBLE_DEVICES" in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize(("index", "shown"), [("4", 4), ("-1", 4), ("2", 2)])
def test_a_device_that_is_not_there_is_named_with_what_is(config: str, index: str, shown: int) -> None:
    flags = ("--backend", "host", "--listen", "127.0.0.1:0", "--acl-config", config, "--device", index)
    visible = ",".join(map(str, range(shown)))
    finished = run_to_end(*flags, ASCEND_RT_VISIBLE_DEVICES=visible)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert f"there is no device {index}: the runtime shows {shown}" in finished.stderr
    assert "--device" in finished.stderr
    assert "Traceback" not in finished.stderr
