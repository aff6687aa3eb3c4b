"""Numbers of different kinds are not taken for each other."""

import pytest
from mypy import api

READ = """
from broker.ids import PartitionNumber, TopicNumber

def read(number: TopicNumber, partition: PartitionNumber) -> None: ...

read({arguments})
"""


def check(arguments):
    """What the type checker says of a call, and its exit status."""
    said, errors, status = api.run(
        ["--config-file=", "-c", READ.format(arguments=arguments)]
    )
    assert not errors
    return said, status


@pytest.mark.parametrize(
    "arguments",
    [
        "PartitionNumber(1), TopicNumber(1)",
        "1, PartitionNumber(1)",
        "TopicNumber(1), 1",
    ],
)
def test_a_swapped_number_is_refused(arguments):
    said, status = check(arguments)
    assert (status, "arg-type" in said) == (1, True), said


def test_each_in_its_place_passes():
    assert check("TopicNumber(1), PartitionNumber(1)")[1] == 0
