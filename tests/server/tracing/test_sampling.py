"""The choice is the one that OpenTelemetry's SDK makes, for every sampler, trace and parent."""

import random

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from aclgrad_server.tracing.sampling import Sampling

SAMPLERS = ("always_on", "always_off", "traceidratio")
TRACES = [random.Random(3).getrandbits(128) for _ in range(500)]


@pytest.mark.parametrize("share", ["", "0", "0.01", "0.5", "1"])
@pytest.mark.parametrize("name", ["", *SAMPLERS, *(f"parentbased_{each}" for each in SAMPLERS), "AlwAys_Off"])
def test_choices(name: str, share: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": share}
    given = {key: value for key, value in given.items() if value}
    for key, value in given.items():
        monkeypatch.setenv(key, value)
    theirs, ours = TracerProvider(shutdown_on_exit=False).sampler, Sampling.of(given)
    for trace in TRACES:
        for flags in (None, 0, 1, 2, 3):
            parent = None if flags is None else SpanContext(trace, 1, True, TraceFlags(flags))
            context = Context() if parent is None else set_span_in_context(NonRecordingSpan(parent), Context())
            expected = theirs.should_sample(context, trace, "a call").decision.is_sampled()
            assert ours.chooses(trace, flags) == expected
