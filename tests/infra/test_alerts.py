"""Each alert fires for what it is about, and for nothing less."""

from pathlib import Path

import pytest
import yaml

from tests.support.promql import NOW_S, found_by

RULES = yaml.safe_load(
    (Path(__file__).parents[2] / "infra" / "prometheus" / "alerts.yml").read_text()
)
ALERTS = {
    rule["alert"]: rule["expr"] for group in RULES["groups"] for rule in group["rules"]
}
DAY_S = 86_400


def last(name, *values):
    """For each value a case: the one series, which has it now."""
    return [{f'{name}{{instance="a"}}': [value]} for value in values]


def counted(name, minutes, *counts):
    """For each count a case: the one counter, which grew by it in the last minute.
    Prometheus may make a little more of it, so 2 is neither above 2 nor not."""
    return [
        {f'{name}{{instance="a"}}': [5] * minutes + [5 + count]} for count in counts
    ]


def slow(name, at_most_s, beyond_s, share, **more):
    """A histogram of a thousand a minute, of which so many in a hundred took longer
    than ``at_most_s`` and no longer than ``beyond_s``."""
    labels = "".join(f', {label}="{value}"' for label, value in more.items())
    quick = [minute * (1000 - 10 * share) for minute in range(6)]
    whole = [minute * 1000 for minute in range(6)]
    bounds = {at_most_s: quick, beyond_s: whole, "+Inf": whole}
    return {
        f'{name}_bucket{{instance="a", le="{bound}"{labels}}}': counts
        for bound, counts in bounds.items()
    }


def hangs(*values):
    return {
        f'lakelog_broker_transaction_hangs{{instance="a", topic="t{at}"}}': [value]
        for at, value in enumerate(values)
    }


def disk(part, free, low):
    name = f'lakelog_{part}_disk_{{}}_bytes{{{{instance="a"}}}}'
    return {name.format("free"): [free], name.format("low"): [low]}


def up(job, value):
    return {f'up{{job="{job}", instance="a"}}': [value]}


REQUESTS = "lakelog_broker_request_duration_seconds"
SYNCS = "lakelog_broker_sync_duration_seconds"
LAG = "lakelog_broker_loop_lag_seconds"
CERTIFICATE = "lakelog_admin_certificate_expires_seconds"
CASES = {
    "LakelogDown": ([up("lakelog", 0)], [up("lakelog", 1), up("other", 0)]),
    "LakelogBrokerDown": (last("lakelog_broker_up", 0), last("lakelog_broker_up", 1)),
    "LakelogBrokerProblems": (
        last("lakelog_broker_problems", 1, 2),
        last("lakelog_broker_problems", 0),
    ),
    "LakelogHandlerErrors": (
        counted("lakelog_broker_handler_errors_total", 5, 1),
        counted("lakelog_broker_handler_errors_total", 5, 0),
    ),
    "LakelogSlowProduce": (
        [slow(REQUESTS, 0.5, 1, 2, api="produce")],
        [
            slow(REQUESTS, 0.5, 1, 0.5, api="produce"),
            slow(REQUESTS, 0.25, 0.5, 2, api="produce"),
            slow(REQUESTS, 0.5, 1, 2, api="fetch"),
        ],
    ),
    "LakelogSlowSync": (
        [slow(SYNCS, 0.2, 0.4, 2)],
        [slow(SYNCS, 0.2, 0.4, 0.5), slow(SYNCS, 0.1, 0.2, 2)],
    ),
    "LakelogLoopLag": (
        [slow(LAG, 0.1, 0.2, 2)],
        [slow(LAG, 0.1, 0.2, 0.5), slow(LAG, 0.05, 0.1, 2)],
    ),
    "LakelogConnectionsRefused": (
        counted("lakelog_broker_connections_refused_total", 5, 1),
        counted("lakelog_broker_connections_refused_total", 5, 0),
    ),
    "LakelogNoCompactor": (
        last("lakelog_compactor_up", 0),
        last("lakelog_compactor_up", 1),
    ),
    "LakelogCompactorStuck": (
        last("lakelog_compactor_stuck", 1, 2),
        last("lakelog_compactor_stuck", 0),
    ),
    "LakelogTableUnreadable": (
        last("lakelog_compactor_unreadable_tables", 1, 2),
        last("lakelog_compactor_unreadable_tables", 0),
    ),
    "LakelogLogDamaged": (
        last("lakelog_compactor_damaged_places", 1, 2),
        last("lakelog_compactor_damaged_places", 0),
    ),
    "LakelogTablesLate": (
        last("lakelog_compactor_oldest_pending_ms", 120_001),
        last("lakelog_compactor_oldest_pending_ms", 120_000),
    ),
    "LakelogTransactionHangs": ([hangs(1), hangs(0, 1)], [hangs(0), hangs(0, 0)]),
    "LakelogGroupBehind": (
        last("kafka_consumergroup_lag_sum", 1_000_001),
        last("kafka_consumergroup_lag_sum", 1_000_000),
    ),
    "LakelogLogDiskNearlyFull": (
        [disk("broker", 399, 100)],
        [disk("broker", 400, 100)],
    ),
    "LakelogTableDiskNearlyFull": (
        [disk("compactor", 399, 100)],
        [disk("compactor", 400, 100), disk("compactor", 0, 0)],
    ),
    "LakelogRoundsFail": (
        counted("lakelog_compactor_rounds_failed_total", 15, 3),
        counted("lakelog_compactor_rounds_failed_total", 15, 1),
    ),
    "LakelogCompactorRestarts": (
        counted("lakelog_compactor_restarts_total", 30, 3),
        counted("lakelog_compactor_restarts_total", 30, 1),
    ),
    "LakelogCertificateExpires": (
        last(CERTIFICATE, NOW_S + 7 * DAY_S - 1),
        last(CERTIFICATE, NOW_S + 7 * DAY_S),
    ),
    "LakelogTokenExpires": (
        last("lakelog_admin_token_expires_seconds", NOW_S + DAY_S - 1),
        last("lakelog_admin_token_expires_seconds", NOW_S + DAY_S),
    ),
}
"""Alert -> cases for which it fires, and for which it does not."""


def test_each_alert_has_its_cases():
    assert ALERTS.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_for_what_it_is_about(name):
    must, must_not = CASES[name]
    for series in must:
        assert found_by(ALERTS[name], series), series
    for series in must_not:
        assert not found_by(ALERTS[name], series), series
