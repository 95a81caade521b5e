"""References in `expect`: the values of the run, as data and never as code or pattern."""

from __future__ import annotations

import fnmatch
import re
import subprocess

import msgspec
import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from recoup.checks.filling import expectation_texts, fill_in
from recoup.checks.page.kind import glob
from recoup.documents.plan_file import parse_plan
from recoup.errors import InvalidPlan
from recoup.kernel.references import TemplateError
from recoup.model.plan import Check, DiffCheck, ExitCheck, OutputCheck, RegionCheck, RunCheck, UrlCheck
from recoup.runtimes.shell import shell_argv

SAID = "hush-hush-hush"
VALUES = {"inputs.a": "INV-1", "inputs.s": SAID, "steps.one.outputs.n": 7, "run.id": "r"}
SECRET = frozenset({"inputs.s"})
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


def checks_of(*written: str) -> tuple[Check, ...]:
    listed = "".join(f"\n      - {one}" for one in written)
    head = "version: 1\nname: w\nworkspace: {folder: .}\ninputs: {a: x, s: {secret: true}}\nsteps:\n  - {id: one, run: x}\n  - browser: {goto: 'http://localhost/'}\n"
    return parse_plan(f"{head}  - run: x\n    expect:{listed}\n").steps[2].expect


REF = '"${{ inputs.a }}"'
EVERYWHERE = (
    f"{{file: {REF}, contains: {REF}}}",
    f"{{stdout: {REF}}}",
    f"{{stderr: {{regex: {REF}}}}}",
    f"{{json: {REF}, path: {REF}, equals: [{REF}]}}",
    f"{{run: {REF}}}",
    f"{{run: [echo, {REF}]}}",
    f"{{diff: nonempty, paths: [{REF}]}}",
    f"{{url: {REF}}}",
    f"{{title: {REF}}}",
    f"{{text: {REF}, absent: true}}",
    f"{{visible: {{role: button, name: {REF}, near: {REF}}}}}",
    f"{{hidden: {REF}}}",
    f"{{count: {{text: {REF}, is: 3}}}}",
    f"{{value: {{label: {REF}, is: {REF}}}}}",
    f"{{value: {{label: {REF}, matches: {REF}}}}}",
    f"{{response: {{url: {REF}}}}}",
    f"{{unchanged: {{text: {REF}}}}}",
)


@pytest.mark.parametrize("written", EVERYWHERE)
def test_a_reference_may_stand_in_every_text_of_a_check(written: str) -> None:
    checks = checks_of(written)
    assert len(expectation_texts(checks)) >= written.count("${{")
    filled = msgspec.json.encode(fill_in(checks, VALUES).checks).decode()
    assert "${{" not in filled and "INV" in filled


def test_a_whole_value_keeps_its_type() -> None:
    (check,) = checks_of('{json: a, path: b, equals: "${{ steps.one.outputs.n }}"}')
    (filled,) = fill_in((check,), VALUES).checks
    assert filled.equals == 7  # type: ignore[union-attr]


@given(TEXTS)
def test_a_value_in_a_pattern_stands_for_itself(value: str) -> None:
    scope = {"inputs.a": value}
    regex, address, paths = fill_in(
        checks_of(
            '{stdout: {regex: "^<${{ inputs.a }}>$"}}',
            '{url: "**/${{ inputs.a }}/*"}',
            '{diff: nonempty, paths: ["${{ inputs.a }}/*.txt"]}',
        ),
        scope,
    ).checks
    assert isinstance(regex, OutputCheck) and isinstance(address, UrlCheck) and isinstance(paths, DiffCheck)
    assert re2.search(regex.match.regex, f"<{value}>")
    assert not re2.search(regex.match.regex, f"<{value}!>")
    assert glob(address.pattern).fullmatch(f"https://shop/{value}/done")
    assert fnmatch.fnmatchcase(f"{value}/one.txt", paths.paths[0])


@pytest.mark.parametrize("value", ["*", "a*b", "**", "a.b"])
def test_a_star_in_a_value_is_no_wildcard(value: str) -> None:
    (address,) = fill_in(checks_of('{url: "x/${{ inputs.a }}"}'), {"inputs.a": value}).checks
    assert isinstance(address, UrlCheck)
    pattern = glob(address.pattern)
    assert pattern.fullmatch(f"x/{value}")
    assert not pattern.fullmatch(f"x/{re.sub('[*.]', 'yy', value)}")


@given(TEXTS.filter(lambda text: "\n" not in text and "\r" not in text))
def test_a_value_in_the_script_of_a_check_is_data(value: str) -> None:
    (check,) = fill_in(checks_of('{run: "printf %s ${{ inputs.a }}"}'), {"inputs.a": value}).checks
    assert isinstance(check, RunCheck)
    printed = subprocess.run(shell_argv(check.command), capture_output=True, check=True).stdout
    assert printed.decode() == value


def test_secrets_reach_the_scripts_of_checks_through_their_environment_alone() -> None:
    filled = fill_in(
        checks_of('{run: "grep -q ${{ inputs.s }} out"}', '{run: "test ${{ inputs.s }}"}'), VALUES, SECRET
    )
    assert SAID not in str(filled.checks)
    assert list(filled.env.values()) == [SAID] * 2
    assert filled.secrets == {}


@pytest.mark.parametrize(
    ("check", "place"),
    [
        ('{run: [grep, "${{ inputs.s }}", out]}', "expect[0].run[1]"),
        ('{stdout: {regex: "${{ inputs.s }}"}}', "expect[0].stdout.regex"),
        ('{value: {label: a, matches: "${{ inputs.s }}"}}', "expect[0].value.matches"),
        ('{url: "**/${{ inputs.s }}"}', "expect[0].url"),
        ('{response: "**/${{ inputs.s }}"}', "expect[0].response"),
        ('{diff: nonempty, paths: ["${{ inputs.s }}"]}', "expect[0].paths[0]"),
    ],
)
def test_a_secret_may_not_stand_where_others_see_it(check: str, place: str) -> None:
    with pytest.raises(InvalidPlan) as refused:
        checks_of(check)
    (problem,) = refused.value.problems
    assert problem.where == f"steps[2].{place}"
    assert "`inputs.s` is a secret and must not stand here: " in problem.message
    checks = checks_of(check.replace("inputs.s", "inputs.a"))
    with pytest.raises(TemplateError, match="is a secret and must not stand here"):
        fill_in(checks, VALUES, frozenset({"inputs.a"}))


def test_a_secret_that_is_compared_is_named() -> None:
    filled = fill_in(
        checks_of('{stdout: "PIN ${{ inputs.s }}"}', '{text: "${{ inputs.a }}"}'), VALUES, SECRET
    )
    assert filled.secrets == {"inputs.s": SAID}


def test_a_recorded_element_is_looked_up_nowhere() -> None:
    with pytest.raises(InvalidPlan, match=r"recorded\.name: `\$\{\{ … \}\}` is not filled in here"):
        checks_of('{visible: {recorded: {tag: a, name: "${{ inputs.a }}"}}}')


def test_a_check_without_texts_stays_as_it_is() -> None:
    checks = (ExitCheck((0, 3)), RegionCheck())
    assert fill_in(checks, VALUES).checks == checks
