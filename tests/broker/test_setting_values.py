"""The kinds of value, each with what it takes and what it refuses."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from broker.setting_values import (
    Address,
    Bytes,
    FixedAddress,
    Limit,
    Policies,
    Retention,
    Warehouses,
)


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (Bytes, "64Mi", 64 << 20),
        (Bytes, "2 GiB", 2 << 30),
        (Bytes, 5, 5),
        (Limit, "-1", -1),
        (Limit, "1Ki", 1024),
        (Address, "[::]:0", "[::]:0"),
        (FixedAddress, "h:1", "h:1"),
        (Policies, "compact , delete", "compact,delete"),
        (Policies, "delete,delete", "delete"),
        (Policies, "", ""),
        (Warehouses, "fast=/a b, s-2 = /b=c ", "fast=/a b,s-2=/b=c"),
        (Warehouses, "", ""),
        (Retention, "-1", -1),
        (Retention, "1", 1),
    ],
)
def test_it_is_taken(kind: Any, given: Any, value: Any) -> None:
    assert TypeAdapter(kind).validate_python(given) == value


@pytest.mark.parametrize(
    ("kind", "given", "why"),
    [
        (Bytes, "-1", "greater than or equal to 0"),
        (Bytes, "1Zi", "valid integer"),
        (Limit, "-2", "greater than or equal to -1"),
        (Limit, str(2**63), "less than or equal to"),
        (Address, "h", "HOST:PORT"),
        (Address, "h:65536", "above 65535"),
        (FixedAddress, "h:0", "name a port"),
        (Policies, "delete,", "delete, compact"),
        (Warehouses, "/a", "NAME=PATH"),
        (Warehouses, "fast=", "absolute path of fast"),
        (Warehouses, "fast=a", "absolute path of fast"),
        (Warehouses, "Fast=/a", "a-z, 0-9"),
        (Warehouses, "fast=/a,", "NAME=PATH"),
        (Warehouses, "fast=/a,fast=/b", "names one twice"),
        (Retention, "0", r"-1 \(for ever\), or 1 or more"),
        (Retention, "-2", "-1"),
        (Policies, "shred", "delete, compact"),
    ],
)
def test_it_is_refused(kind: Any, given: Any, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        TypeAdapter(kind).validate_python(given)
