"""The times of calls as a chart with logarithmic axes: what the slowest tenth, hundredth and so on of them took."""

from collections.abc import Sequence

import numpy as np

from aclgrad.judgement.charts import Axis, chart, curve

_POINTS = 100


def latency_plot(title: str, milliseconds: Sequence[float]) -> str:
    """Returns an SVG file; 10 on the lower axis is p90, 100 is p99, and so on up to the slowest call."""
    slowest_of = np.geomspace(1, max(2, len(milliseconds)), _POINTS)
    values = np.percentile(milliseconds, 100 * (1 - 1 / slowest_of), method="higher")
    points = [(float(x), max(float(y), 1e-3)) for x, y in zip(slowest_of, values, strict=True)]
    axes = (
        Axis.over("one call of so many took at least", [x for x, _ in points]),
        Axis.over("ms", [y for _, y in points]),
    )
    drawing = chart(title, axes, {"time of a call": points}, curve)
    style = "<style>text{font:11px sans-serif}.grid{stroke:#8884}svg{background:#fff}</style>"
    head, _, rest = drawing.partition(">")
    return f'{head} xmlns="http://www.w3.org/2000/svg">{style}{rest}'
