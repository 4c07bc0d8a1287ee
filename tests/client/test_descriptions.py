"""Both clients: what a server says of itself as Python values, also a server that knows more than the client."""

from datetime import UTC, datetime, timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

import aclgrad
from aclgrad.tensors import DTYPES
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_service import ScriptedService

NEWER = b"\xc2\x3e\x03abc"
"""Field 1000, which nobody knows."""


async def test_operators_are_plain_values(connect: Connect, service: ScriptedService) -> None:
    padding = pb.AttributeDescription(
        name="padding", kind="ATTRIBUTE_KIND_INTS", lengths=[1, 2], minimum=0, summary="p"
    )
    padding.default_value.ints_value.values.extend([0, 0])
    ceil = pb.AttributeDescription(name="ceil", kind="ATTRIBUTE_KIND_BOOL", summary="c")
    grad = pb.InputDescription(
        name="grad", data_types=["DATA_TYPE_FLOAT16"], ranks=[3, 4], shape_only=True, summary="g"
    )
    grad.needed_for.append("out")
    output = pb.OutputDescription(name="out", summary="o")
    told = pb.OperatorDescription(name="pool", symbol="aclnnPool", summary="s", inputs=[grad], outputs=[output])
    told.kind, told.leading_input = "OPERATOR_KIND_VALUE", "grad"
    told.attributes.extend([padding, ceil])
    service.answer = lambda context: pb.ListOperatorsResponse(operators=[told]).SerializeToString()
    (found,) = await maybe_await(connect(service.address).list_operators())
    ints, bool = aclgrad.AttributeKind.INTS, aclgrad.AttributeKind.BOOL
    assert found == aclgrad.OperatorDescription(
        "pool",
        "aclnnPool",
        "s",
        (aclgrad.InputDescription("grad", (DTYPES["float16"],), (3, 4), True, "g", needed_for=("out",)),),
        (
            aclgrad.AttributeDescription("padding", ints, (1, 2), False, (0, 0), 0.0, None, "p"),
            aclgrad.AttributeDescription("ceil", bool, (), True, None, None, None, "c"),
        ),
        (aclgrad.OutputDescription("out", "o"),),
        aclgrad.OperatorKind.VALUE,
        "grad",
    )


async def test_what_only_a_newer_server_knows_breaks_nothing(connect: Connect, service: ScriptedService) -> None:
    client = connect(service.address)
    grad = pb.InputDescription(name="grad", data_types=[1, 99], ranks=[3])
    angle = pb.AttributeDescription(name="angle", kind=77, default_value=tensor_pb2.Attribute.FromString(NEWER))
    for part in (grad, angle):
        part.MergeFromString(NEWER)
    told = pb.OperatorDescription(name="turn", inputs=[grad], attributes=[angle], kind=77)
    service.answer = lambda context: pb.ListOperatorsResponse(operators=[told]).SerializeToString() + NEWER
    (found,) = await maybe_await(client.list_operators())
    assert found.kind is None
    assert (found.inputs[0].dtypes, found.inputs[0].unknown_dtypes) == ((DTYPES["float32"],), (99,))
    assert (found.attributes[0].kind, found.attributes[0].default, found.attributes[0].required) == (None, None, False)
    late = Timestamp(seconds=2**62)
    age, process = Duration(seconds=2**62), pb.ProcessStatus(memory_pressure=77)
    status = pb.GetServerStatusResponse(
        product="960", start_time=late, devices=[pb.DeviceStatus(index=1, sample_age=age)], process=process
    )
    service.answer = lambda context: status.SerializeToString() + NEWER
    answer = await maybe_await(client.server_status())
    assert (answer.product, answer.start_time, answer.devices[0].pool.limit_bytes) == ("960", None, 0)
    assert (answer.devices[0].sample_age, answer.process.memory_pressure, answer.ready) == (None, None, True)


async def test_status_is_plain_values(connect: Connect, service: ScriptedService) -> None:
    start = Timestamp()
    start.FromDatetime(datetime(2026, 11, 22, tzinfo=UTC))
    half, pool = Duration(nanos=500_000_000), pb.PoolStatus(hit_count=7)
    device = pb.DeviceStatus(index=2, soc_name="Ascend910B1", pool=pool, free_bytes=2**40, sample_age=half)
    process = pb.ProcessStatus(memory_pressure=pb.MEMORY_PRESSURE_SOFT, refused_counts={"queue": 3})
    latency = Duration(nanos=1_500_000)
    status = pb.GetServerStatusResponse(
        version="0.1.0",
        product="910B",
        start_time=start,
        devices=[device],
        queue=pb.QueueStatus(running_limit=4, receiving_count=24, replying_count=3),
        limits=pb.Limits(message_bytes=2**24, program_steps=4096, call_bytes=2**30),
        problems=[pb.Problem(summary="memory is short", remedy="give more", serious=True)],
        not_ready_reason="draining",
        operators=[pb.OperatorStatus(name="pool", call_count=5, calls_per_second=0.5, p99_latency=latency)],
        recent_failures=[pb.FailureStatus(reason="SERVER_BUSY", count=20, recent_count=2, last_time=start)],
        process=process,
        changed_settings={"streams": "8"},
        computes_on_cpu=True,
    )
    service.answer = lambda context: status.SerializeToString()
    found = await maybe_await(connect(service.address).server_status())
    assert (found.version, found.product) == ("0.1.0", aclgrad.Product.ATLAS_A2)
    assert found.start_time == datetime(2026, 11, 22, tzinfo=UTC)
    (told,) = found.devices
    assert (told.index, told.soc_name, told.pool.hit_count, told.free_bytes) == (2, "Ascend910B1", 7, 2**40)
    assert (found.queue.running_limit, found.limits.message_bytes) == (4, 2**24)
    assert (found.limits.program_steps, found.limits.program_rest_bytes, found.limits.call_bytes) == (4096, 0, 2**30)
    assert (found.queue.receiving_count, found.queue.replying_count, found.computes_on_cpu) == (24, 3, True)
    assert found.problems == (aclgrad.Problem("memory is short", "give more", serious=True),)
    assert (found.ready, found.not_ready_reason, found.changed_settings) == (False, "draining", {"streams": "8"})
    assert (told.sample_age, told.oldest_step) == (timedelta(seconds=0.5), None)
    assert (found.uptime, found.certificate_remaining) == (None, None)
    assert (found.process.memory_pressure, found.process.refused_counts) == ("soft", {"queue": 3})
    milliseconds = timedelta(milliseconds=1.5)
    assert found.operators == (aclgrad.OperatorStatus("pool", 5, 0, 0.5, None, milliseconds),)
    assert found.recent_failures == (aclgrad.FailureStatus("SERVER_BUSY", "", "", 20, found.start_time, 2),)
