"""What a client finds out about its server before it reroutes gradients to it."""

import grpc
import pytest

import aclgrad
from aclgrad._client.served import served_by
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
