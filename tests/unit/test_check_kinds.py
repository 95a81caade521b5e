"""A kind of check, a source of outputs and a notifier are known by their objects alone. Ones that exist nowhere else are
rendered wherever one can appear."""

from __future__ import annotations

import ast
import asyncio
import importlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from recoup import plugins as found
from recoup.checks import registry
from recoup.checks.inspector import WorldInspector
from recoup.checks.kind import CheckKind
from recoup.checks.sources import registry as sources
from recoup.checks.sources.kind import OutputSource
from recoup.clock import SystemClock
from recoup.documents.plan_file import plan_from_data
from recoup.documents.probe_file import parse_probe
from recoup.documents.schemas import plan_schema, probe_schema
from recoup.engine.lease import LeaseLifeline
from recoup.errors import InvalidPlan, InvalidProbe
from recoup.kernel.fold import fold
from recoup.model.events import AttemptFailed, AttemptFinished
from recoup.model.ids import run_stream
from recoup.model.outcome import Captured, Outcome, Scene
from recoup.model.plan import AnyOutput, CustomCheck, FileCheck, Plan
from recoup.model.policy import Policy
from recoup.model.run import RunStatus, Verdict
from recoup.notifiers import registry as notifiers
from recoup.notifiers.kind import NotDelivered, Notification, NotifierSite, OpenNotifier
from recoup.processes.keeper import LinuxKeeper
from recoup.redaction.redactor import SecretRedactor
from recoup.steps.registry import needs_of, offered_kinds
from recoup.testing.house import House
from recoup.testing.runtime import ScriptedRuntime

SOURCE = Path(__file__).parents[2] / "src" / "recoup"
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "plan.md"

# Who may name a kind

CHECKS = frozenset(
    f"{name}Check"
    for name in (
        *("Exit", "File", "Output", "Json", "Run", "Diff", "Custom"),
        *("Url", "Title", "PageText", "Target", "Value", "Response", "Region"),
    )
)
OUTPUTS = frozenset({"JsonOutput", "RegexOutput", "DeclaredOutput"})
MAY_NAME = {
    "model/plan.py": "every process must be able to read a stored plan",
    "checks/": "the kinds themselves",
    "testing/": "plans and pages made for tests",
    "simulation/": "plans made for storms, whose inspector knows what is true",
    "model/probe.py": "checks of probes, which have the same names",
    "probe/": "the same",
    "documents/probe_check_shape.py": "the same",
}
"""The files that may say one kind of check or output. The list may become shorter, and never longer."""


@cache
def modules() -> list[tuple[str, ast.Module]]:
    texts = [(path.relative_to(SOURCE).as_posix(), path.read_text()) for path in sorted(SOURCE.rglob("*.py"))]
    return [
        (place, ast.parse(text))
        for place, text in texts
        if re.search(r"Check\b|Output\b|recoup\.checks", text)
    ]


def names_in(tree: ast.Module) -> set[str]:
    nodes = [*ast.walk(tree)]
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    return imported | {node.id for node in nodes if isinstance(node, ast.Name)}


def test_nobody_else_names_a_kind_of_check_or_output() -> None:
    for place, tree in modules():
        known = names_in(tree) & (CHECKS | OUTPUTS)
        assert not known or place.startswith((*MAY_NAME,)), f"{place} knows {known}: ask checks.registry"


def test_nobody_else_imports_a_kind() -> None:
    objects = {place.partition(":")[0] for place, _ in registry.BUILT_IN.values()}
    objects |= {
        place.partition(":")[0] for place in (*sources.BUILT_IN.values(), *notifiers.BUILT_IN.values())
    }
    for place, tree in modules():
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)} & objects
        assert not imported or place == "probe/outboxes/opening.py", f"{place} imports {imported}"


@pytest.mark.parametrize("tag", registry.BUILT_IN)
def test_a_kind_answers_for_itself(tag: str) -> None:
    kind, (_, keys) = registry.kind_tagged(tag), registry.BUILT_IN[tag]
    assert isinstance(kind, CheckKind)
    assert tuple(kind.shapes.by_key) == keys, (
        "the registry names the keys, so that a plan loads no other kind"
    )
    assert all(key in {*shape.keys()} for key, shape in kind.shapes.by_key.items())


@pytest.mark.parametrize("key", registry.own_keys())
def test_the_reference_page_shows_every_check(key: str) -> None:
    assert f"{{{key}: " in REFERENCE.read_text()


def test_examining_loads_nothing_for_files() -> None:
    """A worker reads no plan files."""
    asked = (
        "import sys; from recoup.checks.registry import BUILT_IN, kind_tagged; [*map(kind_tagged, BUILT_IN)];"
        "from recoup.checks.sources.registry import all_sources; [*all_sources()];"
        "print({'pydantic', 'importlib.metadata', 'recoup.shapes.shape'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"


# A check that exists nowhere else

EVEN = """
from pydantic import Field
from recoup.checks.custom import Absent, CustomKind, NotAsked
from recoup.checks.custom_shape import CustomShape

class Even(CustomKind):
    key = "even"
    keys = f"{__name__}:Keys"
    world = True
    async def examine(self, check, around):
        path = around.scene.cwd + "/" + check.arguments["of"]
        try:
            with open(path) as file:
                lines = len(file.readlines())
        except OSError as error:
            raise NotAsked(f"{path}: {error.strerror}")
        if lines % 2:
            raise Absent(f"{lines} lines are odd")
        return f"{lines} lines"

class Keys(CustomShape):
    even: str = Field(description="A file with an even number of lines.", examples=["list.txt"])
    def arguments(self): return {"of": self.even}

CHECK = Even()
"""
MAIL = """
from pydantic import Field
from recoup.notifiers.custom import CustomNotifier, NotDelivered
from recoup.shapes.shape import Shape, Text

class Mail(CustomNotifier):
    key = "mail"
    keys = f"{__name__}:MailShape"
    async def tell(self, notification, settings, site):
        if settings["to"] == "nobody":
            raise NotDelivered("no such mailbox")
        if settings["to"] == "torn":
            raise KeyError("torn")
        (site.folder / settings["to"]).write_bytes(notification.body.data)

class MailShape(Shape):
    "A letter by mail."
    to: Text = Field(description="Whose mailbox.", examples=["ops"])

NOTIFIER = Mail()
"""
Install = Callable[..., None]


def forget() -> None:
    importlib.invalidate_caches()
    found.plugins.cache_clear()
    for cached in (
        *(registry.custom_kind, registry.trouble_with, registry._load),
        *(notifiers.notifier_named, notifiers.trouble_with, notifiers._load),
    ):
        cast(Any, cached).cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(site)
    names: list[str] = []

    def add(name: str, code: str, points: str) -> None:
        """As pip leaves a package behind."""
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points.replace("HERE", name))
        (site / f"{name}.py").write_text(code)
        names.append(name)
        forget()

    yield add
    for name in names:
        sys.modules.pop(name, None)
    monkeypatch.undo()
    forget()


@pytest.fixture
def even(install: Install) -> None:
    install("evens", EVEN, "[recoup.checks]\neven = HERE:CHECK\n")


def plan_of(*expect: object, folder: Path = Path()) -> Plan:
    step = {"id": "a", "run": "true", "max_attempts": 1, "expect": list(expect)}
    return plan_from_data({"version": 1, "name": "w", "inputs": {"f": "x"}, "steps": [step]}, folder=folder)


def problems(*expect: object) -> list[str]:
    with pytest.raises(InvalidPlan) as refused:
        plan_of(*expect)
    return [problem.message for problem in refused.value.problems]


@pytest.mark.usefixtures("even")
def test_a_made_up_check_is_read_stored_and_offered() -> None:
    plan = plan_of({"even": "${{ inputs.f }}"}, {"file": "x"})
    check = CustomCheck("even", {"of": "${{ inputs.f }}"}, "evens", True)
    assert plan.steps[0].expect == (check, FileCheck("x"))
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    assert needs_of(plan) == offered_kinds() == {"check.even"}
    assert "A file with an even number of lines." in msgspec.json.encode(plan_schema()).decode()
    assert registry.check_kind(check).words(check) == 'even: {"of":"${{ inputs.f }}"}'


@pytest.mark.usefixtures("even")
def test_what_is_wrong_with_a_made_up_check_is_told_like_any_other() -> None:
    assert problems({"even": 5}) == ["must be text, not a number"]
    assert problems({"even": "x", "of": 1}) == ["unknown key: the keys here are `even`"]
    assert problems({"even": "x", "file": "x"}) == [
        "unknown key: the keys here are `absent`, `contains`, `file`"
    ]
    assert problems({"evn": "x"}) == ["unknown check `evn`: did you mean `even`?"]
    assert problems({"even": "${{ inputs.g }}"}) == [
        "`inputs.g` is not an input of this plan: add it under `inputs`"
    ]


@pytest.mark.usefixtures("even")
@pytest.mark.parametrize(
    ("text", "held", "detail"),
    [("1\n2\n", True, "2 lines"), ("1\n", False, "1 lines are odd"), (None, None, "No such file")],
)
def test_a_made_up_check_is_examined_in_a_run_and_stands_in_its_evidence(
    tmp_path: Path, text: str | None, held: bool | None, detail: str
) -> None:
    if text is not None:
        (tmp_path / "x").write_text(text)

    async def drive() -> None:
        house = House(tmp_path / "house")
        state = await house.run(plan_of({"even": "${{ inputs.f }}"}, folder=tmp_path))
        assert state.status is (RunStatus.SUCCEEDED if held else RunStatus.FAILED)
        (record,) = state.steps
        facts = [event.payload for event in await house.ledger.read(run_stream("run-1"))]
        (ended,) = (fact for fact in facts if isinstance(fact, AttemptFinished | AttemptFailed))
        if held:
            assert record.verdict is Verdict.PASSED
        else:
            assert record.failure.summary is not None
            assert 'even: {"of":"x"}: ' in record.failure.summary and detail in record.failure.summary
        (proof,) = (handle for handle in ended.evidence)
        (result,) = msgspec.json.decode(await house.world.evidence.get(proof))["checks"]
        assert (result["check"], result["held"]) == ('even: {"of":"x"}', held)
        assert detail in result["detail"]

    asyncio.run(drive())


def test_a_stored_plan_with_a_missing_check_is_read_and_fails_before_anything_is_done(tmp_path: Path) -> None:
    plan = plan_of({"file": "x"}, folder=tmp_path)
    check = CustomCheck("even", {"of": "${{ inputs.f }}"}, "recoup-even", True)
    step = msgspec.structs.replace(plan.steps[0], expect=(check,))
    plan = msgspec.structs.replace(plan, steps=(step,))
    assert needs_of(plan) == {"check.even"}

    async def drive() -> None:
        house = House(tmp_path / "house")
        state = await house.run(plan)
        assert state.status is RunStatus.FAILED
        assert "no package here brings the check `even`: pip install recoup-even" in str(
            state.steps[0].failure.summary
        )
        assert cast(ScriptedRuntime, house.runtime).performed == []
        again = fold("run-1", await house.ledger.read(run_stream("run-1")))
        assert again.plan == plan

    asyncio.run(drive())


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import not_there", "cannot be loaded: ModuleNotFoundError: No module named 'not_there'"),
        ("CHECK = 5", "cannot be loaded: broken:CHECK is no CustomKind"),
        (EVEN.replace('key = "even"', 'key = "odd"'), "brings `even`, which calls itself `odd`"),
        (EVEN.replace("    even: str", "    of: str"), "its shape has no key `even`"),
        (
            EVEN.replace("    def arg", "    file: str = ''\n    def arg"),
            "its shape has `file`, a key of Recoup's own checks",
        ),
    ],
)
def test_a_broken_check_is_told_to_plans_that_name_it(install: Install, code: str, words: str) -> None:
    install("broken", code, "[recoup.checks]\neven = HERE:CHECK\n")
    (told,) = problems({"even": "x"})
    assert told.startswith("the plugin broken") and words in told
    assert offered_kinds() == frozenset()
    plan_of({"file": "x"})


def test_a_plan_that_names_no_made_up_check_loads_nothing(install: Install) -> None:
    install("unused", EVEN, "[recoup.checks]\neven = HERE:CHECK\n")
    plan_of({"file": "x"})
    assert "unused" not in sys.modules


def test_without_the_package_the_reader_says_what_may_be_missing() -> None:
    assert problems({"even": "x"})[0].endswith(
        "; if a plugin brings `even`, install it first: recoup doctor lists those that are here"
    )


# A source of outputs that exists nowhere else


class LastLine(AnyOutput, frozen=True, tag="last"):
    secret: bool = False


class LastSource(OutputSource[LastLine]):
    key = "last"
    how = "`last: line`"

    def make_shape(self) -> Any:
        from pydantic import Field

        from recoup.checks.sources.source_shape import SourceShape

        class LastShape(SourceShape):
            last: str = Field(description="The last line that was printed.", examples=["line"])

            def value(self) -> Any:
                return LastLine()

        return LastShape

    def find(self, output: LastLine, scene: Scene) -> str:
        assert scene.outcome is not None
        return scene.outcome.stdout.text().splitlines()[-1]


SOURCE_MADE_UP = LastSource()


@pytest.fixture
def last(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sources.BUILT_IN, "last", f"{__name__}:SOURCE_MADE_UP")
    yield
    sources.source_tagged.cache_clear()


def outputs_of(spec: dict[str, Any]) -> dict[str, Any]:
    step = {"run": "true", "outputs": {"o": spec}}
    return dict(plan_from_data({"version": 1, "name": "w", "steps": [step]}).steps[0].outputs)


@pytest.mark.usefixtures("last")
def test_a_made_up_source_is_read_told_and_collected(tmp_path: Path) -> None:
    outputs = outputs_of({"last": "line"})
    assert outputs == {"o": LastLine()}
    assert "The last line that was printed." in msgspec.json.encode(plan_schema()).decode()
    with pytest.raises(InvalidPlan, match="is found in two ways: keep `regex` or `last`"):
        outputs_of({"last": "line", "regex": "x"})
    with pytest.raises(InvalidPlan, match="add `path` beside `json: FILE`, or a `regex`, or `last: line`"):
        outputs_of({"path": "x"})
    outcome = Outcome(stdout=Captured(b"one\ntwo\n", b"", 8))
    scene = Scene(cwd=str(tmp_path), env={}, policy=Policy(), outcome=outcome)
    inspector = WorldInspector(LinuxKeeper(), SecretRedactor())
    assert asyncio.run(inspector.collect(outputs, scene)).plain == {"o": "two"}


# A notifier that exists nowhere else


def handed_over(hand_over: dict[str, Any]) -> dict[str, Any]:
    probe = {"version": 1, "hand_over": hand_over, "resources": [{"id": "a", "process": {"command": ["x"]}}]}
    return dict(parse_probe(msgspec.json.encode(probe)).hand_over)


@pytest.fixture
def mail(install: Install) -> None:
    install("mails", MAIL, "[recoup.notifiers]\nmail = HERE:NOTIFIER\n")


@pytest.mark.usefixtures("mail")
def test_a_made_up_notifier_is_named_in_a_probe_file_and_told(tmp_path: Path) -> None:
    settings = handed_over({"mail": {"to": "ops"}, "file": "x"})
    assert settings == {"mail": {"to": "ops"}, "file": "x"}
    assert "A letter by mail." in msgspec.json.encode(probe_schema()).decode()
    lifeline = LeaseLifeline(SystemClock().now().boot_us / 1e6 + 60)
    site = NotifierSite(tmp_path, {}, LinuxKeeper(), lifeline)
    body = SecretRedactor().seal({"escalation_id": "p:a:1"})

    def told(to: str) -> None:
        notifier = OpenNotifier(notifiers.notifier_named("mail"), {"to": to}, site)
        assert notifier.name == "mail"
        asyncio.run(notifier.deliver(Notification("p:a:1", "a", body)))

    told("ops")
    assert (tmp_path / "ops").read_bytes() == body.data
    with pytest.raises(NotDelivered, match="no such mailbox"):
        told("nobody")
    with pytest.raises(NotDelivered, match="KeyError"):
        told("torn")


def refused(hand_over: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidProbe) as error:
        handed_over(hand_over)
    return [problem.message for problem in error.value.problems]


def test_what_is_wrong_with_a_made_up_notifier_is_told_like_any_other(install: Install) -> None:
    assert refused({"mail": {"to": "ops"}}) == [
        "unknown key: the keys here are `command`, `file`, `timeout`; if a plugin brings `mail`, install it first: "
        "recoup doctor lists those that are here"
    ]
    assert refused({"comand": ["x"]}) == ["unknown key: did you mean `command`?"]
    install("broken", "import not_there", "[recoup.notifiers]\nmail = HERE:NOTIFIER\n")
    (told,) = refused({"mail": {"to": "ops"}})
    assert "the plugin broken, which brings `mail`, cannot be loaded" in told
    assert handed_over({"file": "x"}) == {"file": "x"}


@pytest.mark.usefixtures("mail")
def test_the_settings_of_a_made_up_notifier_are_checked() -> None:
    assert refused({"mail": {"too": "ops"}}) == [
        'is missing: add it, for example `to: "ops"`',
        "unknown key: did you mean `to`?",
    ]
