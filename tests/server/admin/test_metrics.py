"""Programs in the metrics: how many steps they had, how long the device takes for them, and what is kept of them."""

from prometheus_client.metrics_core import Metric

from aclgrad.products import Product
from aclgrad_server.admin.metrics import Metrics
from aclgrad_server.devices.plan import Limits
from aclgrad_server.devices.planning import Planner
from aclgrad_server.devices.programs import ProgramPlanner
from aclgrad_server.server_view import ServerView
from aclgrad_server.settings import Settings
from tests.server.fakes import at_once
from tests.server.sent import NO_LIMIT, pooling_call, program_of
from tests.server.statistics.test_calls import PROGRAM, Ended


def collected(view: ServerView) -> dict[str, Metric]:
    return {each.name: each for each in Metrics(view).collect()}


def buckets(metric: Metric) -> dict[float, float]:
    return {float(each.labels["le"]): each.value for each in metric.samples if each.name.endswith("_bucket")}


async def test_programs_by_steps_and_work() -> None:
    view, sizes = ServerView(Settings()), [1, 4, 5, 4096]
    for each in sizes:
        view.calls.statistics.add(
            Ended(PROGRAM, "-", items={("tanh_backward", "OK"): each}, step_count=each, work_s=each / 1e3)
        )
    found = collected(view)
    steps, work = buckets(found["aclgrad_program_steps"]), buckets(found["aclgrad_program_work_seconds"])
    assert steps == {bound: sum(each <= bound for each in sizes) for bound in steps}
    assert max(bound for bound in steps if bound < float("inf")) == 4096
    assert work == {bound: sum(each / 1e3 < bound for each in sizes) for bound in work}


async def test_bytes_of_kept_programs() -> None:
    view = ServerView(Settings())
    assert collected(view)["aclgrad_kept_program_bytes"].samples == []
    view.programs = ProgramPlanner(Planner(Product.ATLAS_A2, Limits(NO_LIMIT)))
    for expected in (False, True):
        (sample,) = collected(view)["aclgrad_kept_program_bytes"].samples
        assert (sample.value > 0) is expected
        await view.programs.read(program_of(pooling_call(1, 2, 2)), at_once)
