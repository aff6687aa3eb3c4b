"""The README's table of clients: each row that was run, as it went."""

from infra.clients_table import COLUMNS, programs_table, table


def row(library: str, version: str, **cells: str) -> dict[str, str]:
    return (
        {"library": library, "version": version} | dict.fromkeys(COLUMNS, "yes") | cells
    )


def test_rows_stand_by_library_and_age() -> None:
    rows = [row("b", "newest"), row("b", "2.8"), row("a", "0.10.2"), row("b", "0.9")]
    rows += [row("a", "0.8.2")]
    lines = table(rows).splitlines()[2:]
    firsts = [[cell.strip() for cell in line.split("|")[1:3]] for line in lines]
    assert firsts == [
        ["b", "0.9"], ["b", "2.8"], ["b", "newest"], ["a", "0.8.2"], ["a", "0.10.2"],
    ]  # fmt: skip


def test_a_cell_that_failed_says_so_in_one_cell() -> None:
    [*_, line] = table([row("a", "1", group="FAILED: <x> | y")]).splitlines()
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[2 + COLUMNS.index("group")] == "FAILED: &lt;x> / y"
    assert len(cells) == 2 + len(COLUMNS)


def test_programs_stand_as_they_were_run_first() -> None:
    rows = [
        {"program": "b", "journey": "one", "found": "yes"},
        {"program": "a", "journey": "two", "found": "FAILED: x | y"},
    ]
    lines = programs_table(rows).splitlines()[2:]
    assert lines == ["| b | one | yes |", "| a | two | FAILED: x / y |"]
