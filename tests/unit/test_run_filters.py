"""A filter of runs is declared once, in `RunFilter`: every edge takes it."""

from __future__ import annotations

import inspect
from pathlib import Path

import msgspec
import pytest

from recoup.cli.look import runs
from recoup.cli.run_filters import run_filter
from recoup.gateway.console.runs_query import form, runs_query
from recoup.gateway.service import described
from recoup.kernel.listing import COLUMNS, FILTERS, meets
from recoup.mcp.outside import Tools
from recoup.mcp.run_filters import run_filter as filter_of_tool
from recoup.model.storage import EVERY_RUN, RunFilter, RunRow

HTTP = Path(__file__).parents[2] / "docs" / "reference" / "http.md"
ROW = RunRow(
    run_id="r-1", workflow="pay", status="failed", delivery=1, submitted_at_us=7, updated_at_us=8, reason="Gone",
    seq=9, failure_class="unknown", worker="w",
)  # fmt: skip


def test_every_field_of_a_filter_has_its_facts() -> None:
    assert tuple(FILTERS) == RunFilter.__struct_fields__
    assert set(COLUMNS.values()) <= set(RunRow.__struct_fields__)
    assert all(field.help or field.label for field in FILTERS.values())


@pytest.mark.parametrize("path", ["/api/runs", "/api/runs/count"])
def test_the_http_api_takes_every_filter_and_its_page_names_them(path: str) -> None:
    taken = [one["name"] for one in described()["paths"][path]["get"]["parameters"]]
    names = [field.parameter or field.name for field in FILTERS.values()]
    assert [name for name in taken if name in names] == names
    (line,) = (line for line in HTTP.read_text().splitlines() if line.startswith("| `GET /api/runs?"))
    assert line.startswith(f"| `GET /api/runs?{'&'.join(names)}&")


def test_the_command_has_an_option_for_every_filter_with_a_help_text() -> None:
    options = {name: param for param in runs.params for name in param.opts}
    for name, field in FILTERS.items():
        assert (f"--{field.name}" in options) is bool(field.help)
        if field.help:
            assert options[f"--{field.name}"].name == name
    assert run_filter(
        {"since_us": 2.5, "workflow": None, "text": "x", "statuses": ("failed",)}, 10_000_000
    ) == (RunFilter(since_us=7_500_000, text="x", statuses=("failed",)))


def test_the_console_has_every_filter_in_its_form_or_beside_it() -> None:
    assert {field.name for field in form(runs_query([]), {})} == {
        field.name for field in FILTERS.values() if field.label
    }
    assert {field.name for field in FILTERS.values() if not field.label} == {"status"}


def test_the_tool_of_agents_takes_every_filter() -> None:
    taken = inspect.signature(Tools.list_runs).parameters
    assert [*taken][2:-2] == ["workflow", "status", "failure_class", "worker", "since", "until", "text"]
    assert filter_of_tool({"status": "failed", "text": "x", "until": None}) == RunFilter(
        statuses=("failed",), text="x"
    )


@pytest.mark.parametrize("name", COLUMNS)
def test_a_row_meets_a_filter_with_its_own_value_and_no_other(name: str) -> None:
    own, many = getattr(ROW, COLUMNS[name]), isinstance(getattr(EVERY_RUN, name), tuple)
    same, other = ((own, "else"), ("else",)) if many else (own, "else")
    assert meets(EVERY_RUN, ROW)
    assert meets(msgspec.structs.replace(EVERY_RUN, **{name: same}), ROW)
    assert not meets(msgspec.structs.replace(EVERY_RUN, **{name: other}), ROW)
