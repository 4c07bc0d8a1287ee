"""What makes each alert fire, and what does not, in promtool's notation: a series, its values every 15 s.

A value `1x8` is one that stays for eight more samples; `0+5x8` grows by five.
"""

from typing import Final, NamedTuple

Series = dict[str, str]
DAY: Final = 86400
HOUR: Final = 4 * 60
"""Samples of an hour."""
UP: Final = {'up{job="aclgrad"}': f"1x{HOUR}"}


class Case(NamedTuple):
    """Series for which an alert fires at that time, and others for which it does not."""

    alert: str
    at: str
    fires: tuple[Series, ...]
    quiet: tuple[Series, ...]


def lag(slow: str) -> Series:
    """Returns a histogram of 20 beats a second, of which so many more are slow."""
    bucket = 'aclgrad_event_loop_lag_seconds_bucket{le="%s"}'
    return {bucket % "0.001": "0+300x40", bucket % "1": f"{slow}x40", bucket % "+Inf": f"{slow}x40"}


def calls(**rates: str) -> Series:
    return {f'aclgrad_calls_total{{operator="roi", reason="{reason}"}}': value for reason, value in rates.items()}


def refused(cause: str, values: str) -> Series:
    return {f'aclgrad_refused_rpcs_total{{cause="{cause}"}}': values}


OF_HOST: Final = {
    "AclgradSlowClients",
    "AclgradCertificateExpiring",
    "AclgradIdentitiesRefused",
    "AclgradLogLinesDropped",
}
"""Alerts that a host has once, whichever of its workers they come from."""
NOT_OF_WORKERS: Final = {"AclgradDown", "AclgradWorkerDown", "AclgradWorkerRestarting"}
"""Alerts about metrics that workers do not have themselves."""


CASES: Final = (
    Case("AclgradDown", "2m", ({'up{job="aclgrad"}': "0x20"}, {'up{job="other"}': "1x20"}), (UP,)),
    Case("AclgradDown", "45s", (), ({'up{job="aclgrad"}': "0x20"},)),
    # A start or a drain takes less.
    Case(
        "AclgradNotReady",
        "4m",
        ({"aclgrad_ready": "0x20"},),
        ({"aclgrad_ready": "1x20"}, {"aclgrad_ready": "0x8 1x20"}),
    ),
    # Longer than the longest pause before a restart.
    Case(
        "AclgradWorkerDown",
        "4m",
        ({'aclgrad_worker_up{worker="1"}': "1x4 0x20"},),
        ({'aclgrad_worker_up{worker="1"}': "1x4 0x5 1x20"}, {'aclgrad_worker_up{worker="1"}': "1x20"}, UP),
    ),
    # A loop, whose pauses grow to a minute; and two restarts, or many long ago.
    Case(
        "AclgradWorkerRestarting",
        "8m",
        (
            {'aclgrad_worker_restarts_total{worker="1"}': "0x8 1 3 4 4 5 5 5 6x40"},
            {'aclgrad_worker_restarts_total{worker="1"}': "9+0.25x40"},
        ),
        (
            {'aclgrad_worker_restarts_total{worker="1"}': "0x8 1x10 2x40"},
            {'aclgrad_worker_restarts_total{worker="1"}': "30x40"},
        ),
    ),
    # The second process, after a gap of 30 s; and a new pod, whose labels differ.
    Case(
        "AclgradRestarted",
        "4m",
        ({'process_start_time_seconds{job="aclgrad"}': "100x4 _x2 190x20"},),
        (
            {'process_start_time_seconds{job="aclgrad"}': "100x20"},
            {
                'process_start_time_seconds{job="aclgrad", instance="a"}': "100x4 stale",
                'process_start_time_seconds{job="aclgrad", instance="b"}': "_x6 190x20",
            },
        ),
    ),
    # Seen once, then the process is gone; and a new one that has recovered.
    Case(
        "AclgradDeviceLost",
        "4m",
        ({'aclgrad_device_up{device="0"}': "1x4 0 stale"}, {'aclgrad_device_up{device="0"}': "1x4 0 _ 1x20"}),
        ({'aclgrad_device_up{device="0"}': "1x20"},),
    ),
    Case(
        "AclgradDeviceHanging",
        "1m",
        (
            {
                'aclgrad_device_oldest_step_seconds{device="1"}': "0 8 16 24 32x9",
                "aclgrad_hang_timeout_seconds": "60x20",
            },
            {'aclgrad_device_sample_age_seconds{device="0"}': "1 1 1 1 16x9"},
        ),
        (
            {'aclgrad_device_oldest_step_seconds{device="1"}': "20x9", "aclgrad_hang_timeout_seconds": "60x20"},
            {'aclgrad_device_sample_age_seconds{device="0"}': "1x9"},
        ),
    ),
    Case(
        "AclgradQueueFull",
        "5m",
        (
            {"aclgrad_waiting_calls": "60x20", "aclgrad_waiting_calls_limit": "64x20"},
            refused("queue", "0+3x20"),
            # First the one, then the other.
            {
                "aclgrad_waiting_calls": "0x12 60x8",
                "aclgrad_waiting_calls_limit": "64x20",
                **refused("queue", "0+3x12 36x8"),
            },
        ),
        (
            {"aclgrad_waiting_calls": "40x20", "aclgrad_waiting_calls_limit": "64x20", **refused("queue", "5x20")},
            {"aclgrad_waiting_calls": "0x20", "aclgrad_waiting_calls_limit": "0x20"},
            refused("draining", "0+3x20"),
        ),
    ),
    Case(
        "AclgradMemoryPressure",
        "5m",
        (
            {"aclgrad_memory_pressure": "1x20"},
            {"aclgrad_memory_cuts_total": "0+1x20", "aclgrad_memory_pressure": "0x20"},
            refused("memory", "0+1x20"),
        ),
        ({"aclgrad_memory_pressure": "0x20", "aclgrad_memory_cuts_total": "3x20"}, refused("queue", "0+1x20")),
    ),
    Case(
        "AclgradPoolExhausted",
        "5m",
        ({'aclgrad_pool_out_of_memory_total{device="0"}': "0+1x20"},),
        (
            {'aclgrad_pool_out_of_memory_total{device="0"}': "7x20"},
            {'aclgrad_pool_out_of_memory_total{device="0"}': "0x9 1x9"},
        ),
    ),
    Case(
        "AclgradSlowClients",
        "5m",
        ({"aclgrad_slow_clients_total": "0x9 8x11"},),
        ({"aclgrad_slow_clients_total": "0x9 3x11"}, {"aclgrad_slow_clients_total": "99x20"}),
    ),
    Case(
        "AclgradErrorRate",
        "8m",
        (
            calls(OK="0+97x40", INTERNAL_ERROR="0+3x40"),
            calls(OK="0+97x40", DEVICE_LOST="0+3x40"),
            calls(INTERNAL_ERROR="0+1x40"),
            # All at once, so that the calls have no earlier value; and then no more.
            {
                **calls(INTERNAL_ERROR="_x20 9x20"),
                'aclgrad_rpcs_total{reason="OK"}': "0x20 200x20",
                'aclgrad_rpcs_total{reason="INTERNAL_ERROR"}': "0x20 9x20",
            },
        ),
        # Clients' mistakes, a rare fault, and no calls at all.
        (
            calls(OK="0+50x40", INVALID_FIELD="0+50x40", SERVER_BUSY="0+50x40", DEADLINE_PASSED="0+9x40"),
            calls(OK="0+1000x40", INTERNAL_ERROR="0+1x40"),
            calls(OK="5x40", INTERNAL_ERROR="5x40"),
        ),
    ),
    Case(
        "AclgradEventLoopBlocked",
        "8m",
        ({"aclgrad_event_loop_heartbeat_age_seconds": "4x40"}, lag("0+310")),
        ({"aclgrad_event_loop_heartbeat_age_seconds": "0.02x40"}, lag("0+301"), lag("0+300")),
    ),
    Case(
        "AclgradCertificateExpiring",
        "15m",
        ({"aclgrad_certificate_remaining_seconds": f"{6 * DAY}-15x{HOUR}"},),
        ({"aclgrad_certificate_remaining_seconds": f"{10 * DAY}-15x{HOUR}"}, UP),
    ),
    Case(
        "AclgradIdentitiesRefused",
        "5m",
        (refused("identity", "0+10x20"),),
        (refused("identity", "0+1x20"), refused("share", "0+10x20"), refused("identity", "900x20")),
    ),
    Case(
        "AclgradLogLinesDropped",
        "5m",
        ({"aclgrad_log_lines_dropped_total": "0x9 40x11"},),
        ({"aclgrad_log_lines_dropped_total": "40x20"},),
    ),
)
