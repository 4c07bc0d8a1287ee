"""The log as JSON and as text: what a line has, and which form there is where."""

import json
import os
import re
import subprocess
from typing import Any

import numpy as np
import pytest

import aclgrad
from tests.e2e.fault_plans import once
from tools.calling import wait_until
from tools.serving import Server, clean_environment, command

SMALL = np.ones((1, 1, 1), np.float32)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
METADATA = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
FORGED = '"}\n{"level": "critical", "message": "forged"}'
FORGED_ID = FORGED.replace("\n", "").replace(" ", "")
"""Printable ASCII without spaces, which a request id may be."""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
WRONG = ("--backend", "host", "--listen", "127.0.0.1:0", "--device", "9")


def lines_of(text: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines()]
    assert all(TIME.fullmatch(line["time"]) and line["level"] and line["logger"] for line in lines)
    return lines


@once
def test_json_has_what_is_known_of_a_call() -> None:
    with Server("--log-format", "json", "--log-level", "debug", "--streams", "3") as server:
        # One that asks for no other workers.
        alone = [("grpc.service_config", "{}")]
        with aclgrad.Client(server.address, metadata=METADATA, channel_options=alone) as client:
            with aclgrad.request_id("fine"):
                client.adaptive_avg_pool2d_backward(SMALL, (1, 2, 2))
            with aclgrad.request_id("wrong"), pytest.raises(aclgrad.UnknownOperatorError):
                client.execute(f"x{FORGED}", {"a": SMALL})
            with aclgrad.request_id(FORGED_ID), pytest.raises(aclgrad.InvalidFieldError):
                client.execute("adaptive_avg_pool2d_backward", {"a": SMALL})
        wait_until(lambda: server.log.count("services.handlers") >= 3)
        lines = lines_of(server.log)
    calls = {line["request_id"]: line for line in lines if line["logger"].endswith("services.handlers")}
    assert set(calls) == {"fine", "wrong", FORGED_ID}
    fine = calls["fine"]
    assert (fine["trace_id"], fine["method"], fine["reason"]) == (TRACE, "ExecuteOperator", "OK")
    assert fine["operator"] == "adaptive_avg_pool2d_backward"
    assert fine["peer"].startswith("ipv4:127.0.0.1:")
    assert fine["milliseconds"] > 0
    assert (calls["wrong"]["reason"], calls["wrong"]["trace_id"]) == ("UNKNOWN_OPERATOR", TRACE)
    assert f", trace {TRACE}: NOT_FOUND: " in calls["wrong"]["message"]
    assert not any(line["level"] == "critical" for line in lines)
    (opened,) = (line for line in lines if line["logger"] == "aclgrad_server.server")
    assert (opened["product"], opened["listen"], opened["tls"]) == ("910B", server.address, "off")
    assert opened["settings"]["streams"] == "3"
    assert "drain_timeout_s" not in opened["settings"]
    assert opened["message"].startswith("serving version ")


@once
@pytest.mark.slow
def test_text_on_a_terminal() -> None:
    """Errors in settings are text in any case."""
    for wrong, told in ((WRONG, "aclgrad-server: "), ((*WRONG, "--streams", "0"), "aclgrad-server: --streams is '0'")):
        ours, theirs = os.openpty()
        try:
            environment = clean_environment(ACLGRAD_LOG_FORMAT="")
            subprocess.run(command(*wrong), env=environment, stderr=theirs, timeout=60, check=False)
            assert os.read(ours, 2**16).decode().splitlines()[-1].startswith(told)
        finally:
            os.close(ours)
            os.close(theirs)
