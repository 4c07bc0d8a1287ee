"""The server ends the device runtime before its process ends, and leaves nothing behind on the device."""

from pathlib import Path

import numpy as np

import aclgrad
from aclgrad_server.cli import EXIT_UNDRAINED
from tests.native import shims
from tools.serving import Server

RECORDING = """
#include <cstdio>
#include <cstdlib>

void Record(const char* what) {
  FILE* file = std::fopen(std::getenv("RECORD"), "a");
  std::fprintf(file, "%s\\n", what);
  std::fclose(file);
}

extern "C" int aclrtResetDevice(int device) {
  Record("reset");
  return Real<int(int)>("aclrtResetDevice")(device);
}

extern "C" int aclFinalizeReference(uint64_t* count) {
  Record("finalize");
  return Real<int(uint64_t*)>("aclFinalizeReference")(count);
}

struct AtExit {
  ~AtExit() { Record("exit"); }
} at_exit;
"""


def test_a_driver_that_hangs_does_not_keep_the_process(tmp_path: Path) -> None:
    config = tmp_path / "acl.json"
    config.write_text('{"host": {"faults": [{"kind": "hang_destroy_stream", "at": 1}]}}')
    with Server("--acl-config", str(config)) as server:
        server.ask_to_stop()
        assert server.exit_code() == EXIT_UNDRAINED
        assert "the devices did not close within" in server.log


def test_the_runtime_ends_before_the_process(tmp_path: Path) -> None:
    shim, record = shims.build(tmp_path, RECORDING, whole=True), tmp_path / "record"
    with Server("--backend", str(shim), RECORD=str(record)) as server, aclgrad.Client(server.address) as client:
        gradient = client.adaptive_avg_pool2d_backward(np.ones((1, 1, 1, 1), np.float32), (1, 1, 2, 2))
        np.testing.assert_array_equal(gradient, np.full((1, 1, 2, 2), 0.25, np.float32))
    assert server.exit_code() == 0
    assert record.read_text().split() == ["reset", "finalize", "exit"]
