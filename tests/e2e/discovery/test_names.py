"""A client of a headless Service follows the name server from pod to pod, and no call fails."""

import numpy as np
import pytest

import aclgrad
from tools.lab.names import Answers, NameServer
from tools.serving import Server, free_range

pytestmark = pytest.mark.once

GRAD = np.ones((1, 1, 1), np.float32)
FIRST, SECOND = "127.0.1.1", "127.0.1.2"
LAG_S = 0.5
ASK_OFTEN = [("grpc.dns_min_time_between_resolutions_ms", 100)]


def test_no_call_fails_if_a_pod_stops_before_the_name_server_knows() -> None:
    """Nor if the name server does not know the name yet, as at the start."""
    port = free_range(0)
    answers = Answers(LAG_S, cache_s=0.0)
    reports: list[aclgrad.CallReport] = []
    # The pods of a headless Service have one port.
    with (
        Server(listen=(f"{FIRST}:{port}",)) as first,
        Server(listen=(f"{SECOND}:{port}",)) as second,
        NameServer(answers) as names,
        aclgrad.Client(names.target(port), on_call=reports.append, channel_options=ASK_OFTEN) as client,
    ):

        def call_until_answered_by(server: Server) -> None:
            while not reports or reports[-1].server != server.address:
                assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2), timeout_s=10).sum() == 1

        answers.publish([FIRST])
        call_until_answered_by(first)
        answers.publish([SECOND])
        first.ask_to_stop()
        call_until_answered_by(second)
        assert first.exit_code() == 0
    assert {report.server for report in reports} == {first.address, second.address}
