"""A batch of records: each entry is a success or a failure, under its id."""

from collections.abc import Awaitable

from admin_api.problems import Problem, problem_of
from admin_api.records.delivery import Target
from admin_api.records.schemas import (
    BatchEntry,
    BatchFailure,
    BatchReport,
    BatchSuccess,
    ProduceBatch,
    Report,
)


async def deliver_all(target: Target, batch: ProduceBatch) -> BatchReport:
    """What became of each entry. Raises Problem 42208 for a batch that cannot be."""
    batch.check()
    found = BatchReport(successes=[], failures=[])
    sent = [(entry.id, await _send(target, entry)) for entry in batch.entries]
    for entry_id, one in sent:
        try:
            if isinstance(one, Problem):
                raise one
            report = await one
        except Exception as error:  # noqa: BLE001  (the entry's failure says what)
            problem = problem_of(error)
            found.failures.append(
                BatchFailure(
                    id=entry_id, error_code=problem.error_code, message=problem.message
                )
            )
        else:
            fields = report.model_dump(exclude={"error_code"})
            found.successes.append(BatchSuccess(id=entry_id, **fields))
    return found


async def _send(target: Target, entry: BatchEntry) -> Awaitable[Report] | Problem:
    try:
        return await target.send(entry)
    except Exception as error:  # noqa: BLE001  (the entry's failure says what)
        return problem_of(error)
