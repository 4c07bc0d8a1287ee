"""What a client finds out about its server before it reroutes gradients to it."""

import threading
import time

import grpc
import pytest

import aclgrad
from aclgrad.bridges import served_operators
from aclgrad.bridges.served_operators import served_by
from aclgrad.products import Product
from aclgrad.v1 import operator_service_pb2 as pb

from .scripted_service import ScriptedService, failing

LISTED = pb.ListOperatorsResponse(operators=[pb.OperatorDescription(name="avg_pool2d_backward")])


def answer_status(service: ScriptedService, product: str | None) -> None:
    """Has the service list an operator and tell its product, or refuse to."""

    def answer(context: grpc.ServicerContext) -> bytes:
        if service.current.method.endswith("/ListOperators"):
            return LISTED.SerializeToString()
        if product is None:
            return failing(aclgrad.PermissionDeniedError("not yours"))(context)
        return pb.GetServerStatusResponse(version="0.1.0", product=product).SerializeToString()

    service.answer = answer


@pytest.mark.parametrize(("told", "found"), [("310P", Product.ATLAS_INFERENCE), ("a newer one", None)])
def test_operators_and_product_are_asked_for_once(service: ScriptedService, told: str, found: Product | None) -> None:
    answer_status(service, told)
    with aclgrad.Client(service.address) as client:
        for _ in range(2):
            served = served_by(client)
            assert (served.operators, served.product) == ({"avg_pool2d_backward"}, found)
    assert [method.rpartition("/")[2] for method, _ in service.requests] == ["ListOperators", "GetServerStatus"]


def test_a_server_that_refuses_its_status_is_an_error_and_asked_again(service: ScriptedService) -> None:
    """Servers tell the product to every caller, so a refusal is no reason to guess by which rules they compute."""
    answer_status(service, None)
    with aclgrad.Client(service.address) as client:
        with pytest.raises(aclgrad.PermissionDeniedError, match="not yours"):
            served_by(client)
        answer_status(service, "310P")
        assert served_by(client).product is Product.ATLAS_INFERENCE


def test_the_product_follows_the_server(service: ScriptedService, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_status(service, "910B")
    with aclgrad.Client(service.address) as client:
        assert served_by(client).product is Product.ATLAS_A2
        answer_status(service, "310P")
        assert served_by(client).product is Product.ATLAS_A2, "an answer holds for a while"
        monkeypatch.setattr(served_operators, "FRESH_S", 0.0)
        assert served_by(client).product is Product.ATLAS_INFERENCE


def test_the_last_answer_stays_while_no_other_comes(service: ScriptedService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that refuses, one that hangs, and a client that is closed: the call itself will say what is wrong."""
    answer_status(service, "910B")
    released = threading.Event()
    with aclgrad.Client(service.address) as client:
        first = served_by(client)
        monkeypatch.setattr(served_operators, "FRESH_S", 0.0)
        answer_status(service, None)
        assert served_by(client) is first
        service.answer = lambda context: bytes(not released.wait(60))
        start = time.monotonic()
        try:
            assert served_by(client) is first
        finally:
            released.set()
        assert time.monotonic() - start < 30, "the client's own time limit is 5 minutes"
    assert served_by(client) is first
