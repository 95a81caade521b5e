"""Functions as steps, in real processes: what they are given, what they give back, how they fail, hang and die."""

from __future__ import annotations

import asyncio
import os
import signal
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recoup.clock import SystemClock
from recoup.engine.failing import failure_of
from recoup.errors import KeeperError
from recoup.model.events import AttemptFailed, AttemptFinished
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity, run_stream
from recoup.model.outcome import Order, Outcome, Progress
from recoup.model.plan import Action, DeclaredOutput, Plan, PythonAction, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.redacted import Redacted
from recoup.model.run import RunStatus
from recoup.model.workspace import Change
from recoup.ports import Lifeline, Runtime
from recoup.processes.keeper import LinuxKeeper
from recoup.redaction.redactor import SecretRedactor
from recoup.runtimes.python_step import PythonRuntime
from recoup.runtimes.shell import ShellRuntime
from recoup.runtimes.step_log import StepLog
from recoup.testing.house import House

LONG_S = 20.0
SECRET = "-".join(["correct", "horse", "battery", "staple"])
"""Made of parts here and nowhere else: not a secret, but it must be treated as one."""


class EndlessLine:
    deadline_boot_s = float("inf")

    def attach(self, extend: Callable[[float], None]) -> Callable[[], None]:
        return lambda: None


class Onlooker:
    """Hooks that write down what they are told."""

    def __init__(self) -> None:
        self.lifeline: Lifeline = EndlessLine()
        self.stop = asyncio.Event()
        self.spoke = asyncio.Event()
        self.said_text = b""
        self.seen: list[Progress] = []

    async def launched(self, keeper: ProcessIdentity) -> None:
        pass

    def said(self, stream: str, chunk: Redacted) -> None:
        self.said_text += chunk.data
        self.spoke.set()

    def progressed(self, progress: Progress) -> None:
        self.seen.append(progress)

    def session_known(self, session_id: str) -> None:
        pass


class Stage:
    """A folder with a module of functions, and a runtime to perform them."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "plan"
        self.private = root / "private"
        self.log = root / "step.log"
        self.redactor = SecretRedactor()
        self.hooks = Onlooker()
        self.env: dict[str, str] = {}
        for folder in (self.folder, self.private):
            folder.mkdir()

    def module(self, text: str, name: str = "work") -> None:
        (self.folder / f"{name}.py").write_text(textwrap.dedent(text))

    async def call(self, target: str, policy: Policy | None = None, **arguments: Any) -> Outcome:
        return await self.perform(PythonRuntime, PythonAction(f"work:{target}", arguments), policy)

    async def perform(
        self, runtime: type[PythonRuntime | ShellRuntime], action: Action, policy: Policy | None = None
    ) -> Outcome:
        order = Order(
            run_id="run-1",
            step_id="one",
            step_index=0,
            attempt=1,
            action=action,
            cwd=str(self.folder),
            env=self.environment(),
            policy=policy or Policy(step_timeout_seconds=LONG_S, stop_grace_seconds=0.5),
        )
        return await runtime(LinuxKeeper(), self.open_log).perform(order, self.hooks)

    def environment(self) -> dict[str, str]:
        own = {"RUN_ID": "run-1", "STEP_ID": "one", "ATTEMPT": "1", "IDEMPOTENCY_KEY": "run-1.one"}
        return {
            "PATH": os.environ["PATH"],
            **self.env,
            **{f"RECOUP_{name}": value for name, value in own.items()},
            "RECOUP_OUTPUT": str(self.private / "step-0000-0001.env"),
        }

    def open_log(self, order: Order) -> StepLog:
        return StepLog(self.log, self.redactor, order.policy.log_bytes_max, "---")

    def class_of(self, outcome: Outcome) -> FailureClass:
        kind = outcome.kind or FailureKind.EXIT_NONZERO
        return failure_of(self.redactor, outcome, kind, outcome.detail, Change(None), Policy()).cls


@pytest.fixture
async def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


# What a function gives back


async def test_what_a_function_returns_are_the_outputs(stage: Stage) -> None:
    stage.module("def give():\n    return {'count': 3, 'names': ['a', 'ü'], 'nested': {'x y': None}}\n")
    outcome = await stage.call("give")
    assert (outcome.kind, outcome.exit_code) == (None, 0)
    assert outcome.outputs == {"count": 3, "names": ["a", "ü"], "nested": {"x y": None}}


async def test_what_cannot_be_an_output_is_named_with_its_place(stage: Stage) -> None:
    stage.module("def give():\n    return {'a': [{'b': object()}]}\n")
    outcome = await stage.call("give")
    words = "a[0].b is a object, which cannot be written as JSON"
    assert (outcome.kind, outcome.detail) == (FailureKind.OUTPUT_INVALID, words)
    assert words.encode() in stage.log.read_bytes()
    assert stage.class_of(outcome) is FailureClass.DETERMINISTIC_CONTRACT


async def test_outputs_beyond_the_size_of_a_pipe_arrive_whole(stage: Stage) -> None:
    stage.module("def give():\n    return {'big': 'x' * 900_000}\n")
    policy = Policy(outputs_bytes_max=1_000_000, step_timeout_seconds=LONG_S)
    assert (await stage.call("give", policy)).outputs == {"big": "x" * 900_000}


async def test_async_functions_are_awaited(stage: Stage) -> None:
    stage.module("import asyncio\nasync def give():\n    await asyncio.sleep(0)\n    return {'done': True}\n")
    assert (await stage.call("give")).outputs == {"done": True}


# What a function is given


async def test_arguments_become_what_the_function_is_annotated_with(stage: Stage) -> None:
    stage.module(
        """
        from __future__ import annotations
        import dataclasses, enum, pathlib
        from typing import TYPE_CHECKING, Literal
        if TYPE_CHECKING:
            from nowhere import Unknown
        class Colour(enum.Enum):
            RED = "red"
        @dataclasses.dataclass
        class Line:
            amount: float
        def give(count: int, place: pathlib.Path, colour: Colour, lines: list[Line], kind: Literal["a", "b"],
                 text: str, odd: Unknown, free, rate: float = 0.5, /, *, flag: bool, **more):
            assert isinstance(place, pathlib.Path) and colour is Colour.RED
            return {"all": [count, str(place), [line.amount for line in lines], kind, text, odd, free, rate, flag, more]}
        """
    )
    outcome = await stage.call(
        "give",
        count="5",
        place="a/b",
        colour="red",
        lines=[{"amount": "1.5"}, {"amount": 2}],
        kind="b",
        text="5",
        odd=[1],
        free=None,
        flag="true",
        extra={"x": 1},
    )
    assert outcome.outputs == {
        "all": [5, "a/b", [1.5, 2], "b", "5", [1], None, 0.5, True, {"extra": {"x": 1}}]
    }


async def test_wrong_arguments_are_all_named_before_anything_runs(stage: Stage) -> None:
    stage.module("print('imported')\ndef give(customer: str, count: int, month=None):\n    print('called')\n")
    outcome = await stage.call("give", count="many", town="Ulm")
    assert outcome.kind is FailureKind.INVALID_INPUT
    assert "the argument 'customer' is missing" in outcome.detail
    assert "there is no argument 'town' (it takes customer, count, month)" in outcome.detail
    assert "the argument 'count': Expected `int`, got `str`" in outcome.detail
    assert outcome.stdout.text() == "imported\n"
    assert stage.class_of(outcome) is FailureClass.DETERMINISTIC_CONTRACT


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere:give", "there is no module nowhere"),
        ("work.inner:give", "there is no module work.inner"),
        ("work:gone", "the module work has no function gone"),
        ("work:LIMIT", "work:LIMIT is a int, not a function"),
    ],
)
async def test_a_function_that_is_not_there_is_an_invalid_input(
    stage: Stage, target: str, words: str
) -> None:
    stage.module("LIMIT = 3\n")
    outcome = await stage.perform(PythonRuntime, PythonAction(target))
    assert outcome.kind is FailureKind.INVALID_INPUT
    assert words in outcome.detail


async def test_a_failed_import_inside_the_module_is_an_exception(stage: Stage) -> None:
    stage.module("import a_module_that_nobody_has\n")
    outcome = await stage.call("give")
    assert (outcome.kind, outcome.exception) == (FailureKind.EXCEPTION, "ModuleNotFoundError")
    assert stage.class_of(outcome) is FailureClass.DETERMINISTIC_CONTRACT


async def test_the_steps_folder_comes_first_and_gets_no_bytecode(stage: Stage) -> None:
    stage.module("WHO = 'the plan'\n", "colorsys")
    stage.module("import colorsys, sys\ndef give():\n    return [colorsys.WHO, sys.path[0], sys.argv]\n")
    outcome = await stage.call("give")
    assert outcome.outputs["result"] == ["the plan", str(stage.folder), ["work:give"]]
    assert sorted(path.name for path in stage.folder.iterdir()) == ["colorsys.py", "work.py"]


async def test_the_environment_of_the_step_can_extend_the_path(stage: Stage, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "other.py").write_text("def give():\n    return 'from elsewhere'\n")
    stage.env = {"PYTHONPATH": str(elsewhere)}
    outcome = await stage.perform(PythonRuntime, PythonAction("other:give"))
    assert outcome.outputs == {"result": "from elsewhere"}


async def test_arguments_are_neither_in_the_process_list_nor_in_any_file(
    stage: Stage, tmp_path: Path
) -> None:
    stage.module(
        """
        import os, pathlib
        def give(token):
            process = pathlib.Path("/proc/self")
            parent = pathlib.Path(f"/proc/{os.getppid()}")
            public = [one / name for one in (process, parent) for name in ("cmdline", "environ")]
            files = [file for file in pathlib.Path("..").rglob("*") if file.is_file()]
            return {
                "length": len(token),
                "shown": [str(path) for path in public + files if token.encode() in path.read_bytes()],
                "stdin": os.read(0, 10).decode(),
            }
        """
    )
    outcome = await stage.call("give", token=SECRET)
    assert outcome.outputs == {"length": len(SECRET), "shown": [], "stdin": ""}
    assert not list(stage.private.iterdir())


# How a function fails


async def test_an_exception_is_told_by_its_class_and_its_message(stage: Stage) -> None:
    stage.module(
        """
        class Closed(Exception):
            pass
        def inner():
            raise Closed("not before nine\\nnor after five")
        def give():
            inner()
        """
    )
    outcome = await stage.call("give")
    assert (outcome.kind, outcome.exception, outcome.detail) == (
        FailureKind.EXCEPTION,
        "work.Closed",
        "not before nine\nnor after five",
    )
    assert outcome.outcome_known
    log = stage.log.read_text()
    assert "work.Closed: not before nine\nnor after five" in log
    assert "in inner" in log
    assert "python_child" not in log


async def test_a_syntax_error_in_the_module_names_the_line(stage: Stage) -> None:
    stage.module("def give(:\n")
    outcome = await stage.call("give")
    assert outcome.exception == "SyntaxError"
    assert 'work.py", line 1' in stage.log.read_text()
    assert "python_child" not in stage.log.read_text()


@pytest.mark.parametrize(
    ("raised", "name", "cls"),
    [
        ("recoup.Transient('the shop is closed')", "recoup.Transient", FailureClass.TRANSIENT_RUNTIME),
        (
            "recoup.Deterministic('connection refused, retry after 5 s')",
            "recoup.Deterministic",
            FailureClass.DETERMINISTIC_CONTRACT,
        ),
        ("Mine('invalid syntax')", "work.Mine < recoup.Transient", FailureClass.TRANSIENT_RUNTIME),
        ("Slow('x')", "work.Slow < TimeoutError", FailureClass.TRANSIENT_RUNTIME),
        ("ConnectionResetError('x')", "ConnectionResetError", FailureClass.TRANSIENT_RUNTIME),
        (
            "ExceptionGroup('tasks', [Mine('x')])",
            "work.Mine < recoup.Transient",
            FailureClass.TRANSIENT_RUNTIME,
        ),
        ("ValueError('x')", "ValueError", FailureClass.UNKNOWN),
        ("Unreadable()", "work.Unreadable", FailureClass.UNKNOWN),
    ],
)
async def test_the_class_of_a_failure_follows_from_what_was_raised(
    stage: Stage, raised: str, name: str, cls: FailureClass
) -> None:
    stage.module(
        f"""
        import recoup
        class Mine(recoup.Transient):
            pass
        class Slow(TimeoutError):
            pass
        class Unreadable(Exception):
            def __str__(self):
                raise ValueError
        def give():
            raise {raised}
        """
    )
    outcome = await stage.call("give")
    assert (outcome.kind, outcome.exception) == (FailureKind.EXCEPTION, name)
    assert stage.class_of(outcome) is cls


async def test_a_cooldown_says_how_long(stage: Stage) -> None:
    stage.module("import recoup\ndef give():\n    raise recoup.Cooldown(42, 'too many requests')\n")
    outcome = await stage.call("give")
    assert (outcome.exception, outcome.retry_after_s, outcome.detail) == (
        "recoup.Cooldown",
        42,
        "too many requests",
    )
    assert stage.class_of(outcome) is FailureClass.COOLDOWN


@pytest.mark.parametrize(
    ("code", "exit_code", "signum"),
    [
        ("sys.exit(3)", 3, None),
        ("sys.exit('words on the way out')", 1, None),
        ("sys.exit()", 0, None),
        ("os._exit(4)", 4, None),
        ("os.kill(os.getpid(), 9)", None, signal.SIGKILL),
        ("faulthandler._sigsegv()", None, signal.SIGSEGV),
        ("signal.raise_signal(signal.SIGINT)", None, signal.SIGINT),
    ],
)
async def test_a_process_that_ends_by_itself_is_judged_as_any_command(
    stage: Stage, code: str, exit_code: int | None, signum: int | None
) -> None:
    stage.module(f"import faulthandler, os, signal, sys\ndef give():\n    {code}\n")
    outcome = await stage.call("give")
    assert (outcome.exit_code, outcome.signal, outcome.outputs) == (exit_code, signum, {})
    assert outcome.kind is (FailureKind.SIGNALLED if signum else None)


async def test_a_function_that_forks_gives_one_answer(stage: Stage) -> None:
    stage.module(
        "import os\ndef give():\n    child = os.fork()\n    if child:\n        os.waitpid(child, 0)\n    return child > 0\n"
    )
    assert (await stage.call("give")).outputs == {"result": True}


async def test_what_was_returned_does_not_count_when_the_process_then_dies(stage: Stage) -> None:
    stage.module("import atexit, os\natexit.register(os._exit, 9)\ndef give():\n    return 1\n")
    outcome = await stage.call("give")
    assert (outcome.kind, outcome.exit_code) == (None, 9)


async def test_a_killed_process_has_returned_nothing(stage: Stage) -> None:
    stage.module(
        """
        import atexit, os
        def give():
            atexit.register(os.kill, os.getpid(), 9)
            return 1
        """
    )
    outcome = await stage.call("give")
    assert (outcome.kind, outcome.outputs, outcome.outcome_known) == (FailureKind.SIGNALLED, {}, False)


# Time


async def test_a_function_that_hangs_is_killed_and_the_log_says_where(stage: Stage) -> None:
    stage.module(
        "import time\ndef waits_for_godot():\n    time.sleep(60)\ndef give():\n    waits_for_godot()\n"
    )
    policy = Policy(step_timeout_seconds=0.8, stop_grace_seconds=0.5)
    outcome = await stage.call("give", policy)
    assert (outcome.kind, outcome.outcome_known) == (FailureKind.WALL_TIMEOUT, False)
    assert "in waits_for_godot" in stage.log.read_text()
    assert outcome.detail == f'it hung at "{stage.folder}/work.py", line 3 in waits_for_godot'


TELLS = "import recoup, time\ndef give():\n    for turn in range(6):\n        {0}\n        time.sleep(0.2)\n    return 'done'\n"


async def test_progress_keeps_the_idle_timer_from_running_out(stage: Stage) -> None:
    stage.module(TELLS.format("recoup.progress('turns', turn, 6)"))
    policy = Policy(step_timeout_seconds=LONG_S, step_idle_timeout_seconds=1)
    outcome = await stage.call("give", policy)
    assert outcome.outputs == {"result": "done"}
    last = stage.hooks.seen[-1]
    assert (last.note.text, last.done, last.total) == ("turns", 5, 6)
    assert (outcome.stdout.total, outcome.stderr.total) == (0, 0)


async def test_without_progress_it_runs_out(stage: Stage) -> None:
    stage.module(TELLS.format("pass"))
    policy = Policy(step_timeout_seconds=LONG_S, step_idle_timeout_seconds=0.5, stop_grace_seconds=0.5)
    assert (await stage.call("give", policy)).kind is FailureKind.IDLE_TIMEOUT


async def test_lines_are_seen_while_the_function_works(stage: Stage) -> None:
    stage.module("import time\ndef give():\n    print('begun')\n    time.sleep(60)\n")
    performing = asyncio.create_task(stage.call("give"))
    await asyncio.wait_for(stage.hooks.spoke.wait(), LONG_S)
    stage.hooks.stop.set()
    outcome = await performing
    assert outcome.interrupted
    assert stage.hooks.said_text.startswith(b"begun")


async def test_progress_is_redacted_before_anybody_sees_it(stage: Stage) -> None:
    stage.redactor.register("token", SECRET)
    stage.module(
        f"import recoup\ndef give():\n    recoup.progress('with {SECRET} in it')\n    import time; time.sleep(0.2)\n"
    )
    await stage.call("give")
    assert SECRET not in stage.hooks.seen[0].note.text
    assert stage.hooks.seen[0].note.text.startswith("with ")


async def test_a_secret_is_found_in_progress_across_lines_and_cuts(stage: Stage) -> None:
    two_lines = SECRET.replace("-", "\n")
    stage.redactor.register("token", SECRET)
    stage.redactor.register("lines", two_lines)
    stage.module(
        """
        import recoup, time
        def give(tokens):
            for token in tokens:
                for before in (0, 180, 190, 480, 490):
                    recoup.progress("." * before + " " + token, 1, 1)
                    time.sleep(0.12)
        """
    )
    await stage.call("give", tokens=[SECRET, two_lines])
    shown = " ".join(progress.note.text for progress in stage.hooks.seen)
    assert len(stage.hooks.seen) >= 4
    assert not [word for word in SECRET.split("-") if word in shown]


async def test_a_flood_of_progress_is_cheap_and_the_last_word_is_seen(stage: Stage) -> None:
    stage.module(
        """
        import recoup, time
        def give():
            for turn in range(100_001):
                recoup.progress("x" * 10_000 if turn < 100_000 else "the end", turn, 100_000)
            time.sleep(0.3)
        """
    )
    outcome = await stage.call("give")
    assert outcome.exit_code == 0
    assert outcome.duration_ms < 10_000
    assert len(stage.hooks.seen) < 60
    assert max(len(progress.note) for progress in stage.hooks.seen) <= 200
    assert stage.hooks.seen[-1].note.text == "the end"


async def test_progress_never_waits_for_a_driver_that_does_not_read(stage: Stage, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "unread")
    reader = os.open(tmp_path / "unread", os.O_RDWR | os.O_NONBLOCK)
    stage.module(
        """
        import os, recoup
        def give(path):
            os.environ["RECOUP_PROGRESS"] = path
            for _ in range(3_000):
                recoup.progress("x" * 200, 1, 1)
            os.environ["RECOUP_PROGRESS"] = "/nowhere/at/all"
            recoup.progress("x", 1, 1)
            return "never waited"
        """
    )
    outcome = await stage.call("give", path=str(tmp_path / "unread"))
    os.close(reader)
    assert outcome.outputs == {"result": "never waited"}


async def test_a_shell_step_can_tell_its_progress_too(stage: Stage) -> None:
    script = 'for i in 1 2 3; do echo "$i/3 loading" > "$RECOUP_PROGRESS"; sleep 0.3; done'
    policy = Policy(step_timeout_seconds=LONG_S, step_idle_timeout_seconds=0.8)
    outcome = await stage.perform(ShellRuntime, RunAction(script), policy)
    assert outcome.exit_code == 0
    assert [(seen.note.text, seen.done, seen.total) for seen in stage.hooks.seen] == [
        ("loading", float(turn), 3.0) for turn in (1, 2, 3)
    ]


async def test_without_a_private_folder_a_function_is_not_called(stage: Stage) -> None:
    stage.private.rmdir()
    stage.module("def give():\n    raise AssertionError\n")
    with pytest.raises(KeeperError, match="could not be made"):
        await stage.call("give")
    assert not stage.log.exists()


async def test_without_a_private_folder_a_shell_step_runs_all_the_same(stage: Stage) -> None:
    stage.private.rmdir()
    outcome = await stage.perform(ShellRuntime, RunAction('echo 1/2 > "$RECOUP_PROGRESS"'))
    assert outcome.exit_code == 0


# From end to end


def house_of(root: Path) -> House:
    """In real time: the processes are real, and so is their lifeline."""
    house = House(root, clock=SystemClock(), policy=Policy(backoff_ms=1))
    (root / "plan").mkdir()

    def open_log(order: Order) -> StepLog:
        return StepLog(
            root / f"step-{order.step_index}.log", house.redactor, order.policy.log_bytes_max, "---"
        )

    runtimes: dict[str, Runtime] = {"python": PythonRuntime(LinuxKeeper(), open_log)}
    house.world = msgspec.structs.replace(house.world, runtimes=runtimes)
    return house


def python_step(step_id: str, target: str, **changes: Any) -> Step:
    arguments = changes.pop("arguments", {})
    return Step(id=step_id, action=PythonAction(f"work:{target}", arguments), **changes)


async def test_outputs_keep_their_types_from_step_to_step(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    (tmp_path / "plan" / "work.py").write_text(
        "def give():\n    return {'count': 3, 'names': ['a', 'b']}\n"
        "def take(count, names, text):\n    return {'got': [count, names, text]}\n"
    )
    arguments = {
        "count": "${{ steps.first.outputs.count }}",
        "names": "${{ steps.first.outputs.names }}",
        "text": "n=${{ steps.first.outputs.count }}",
    }
    steps = (python_step("first", "give"), python_step("second", "take", arguments=arguments))
    state = await house.run(Plan(name="typed", steps=steps, folder=str(tmp_path / "plan")))
    assert state.status is RunStatus.SUCCEEDED, state.reason
    assert state.steps[1].results.outputs == {"got": [3, ["a", "b"], "n=3"]}


async def test_a_second_attempt_is_told_what_went_wrong(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    (tmp_path / "plan" / "work.py").write_text(
        textwrap.dedent(
            """
            import recoup
            def give():
                here = recoup.context()
                if here.attempt == 1:
                    assert here.retry_context is None
                    raise recoup.Transient("the shop is closed")
                return {
                    "ids": [here.run_id, here.step_id, here.idempotency_key, str(here.workspace)],
                    "told": here.retry_context["failureSummary"],
                }
            """
        )
    )
    plan = Plan(name="again", steps=(python_step("one", "give"),), folder=str(tmp_path / "plan"))
    state = await house.run(plan)
    assert (state.status, state.steps[0].spent.attempts) == (RunStatus.SUCCEEDED, 2)
    assert state.steps[0].results.outputs["ids"] == ["run-1", "one", "run-1.one", str(tmp_path / "plan")]
    assert "the shop is closed" in state.steps[0].results.outputs["told"]
    assert "recoup.Transient" in state.steps[0].results.outputs["told"]


async def test_a_deterministic_failure_is_not_tried_again(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    (tmp_path / "plan" / "work.py").write_text(
        "import recoup\ndef give():\n    raise recoup.Deterministic('no such customer')\n"
    )
    plan = Plan(name="once", steps=(python_step("one", "give"),), folder=str(tmp_path / "plan"))
    state = await house.run(plan)
    assert (state.status, state.steps[0].spent.attempts) == (RunStatus.FAILED, 1)
    assert state.failure.cls is FailureClass.DETERMINISTIC_CONTRACT


async def test_a_secret_in_an_exception_reaches_no_record(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    house.redactor.register("token", SECRET)
    (tmp_path / "plan" / "work.py").write_text(
        f"def give():\n    raise RuntimeError('refused: ' + '{SECRET[:7]}' + '{SECRET[7:]}')\n"
    )
    plan = Plan(name="quiet", steps=(python_step("one", "give"),), folder=str(tmp_path / "plan"))
    state = await house.run(plan)
    failed = [
        event
        for event in await house.ledger.read(run_stream("run-1"))
        if isinstance(event.payload, AttemptFailed)
    ]
    assert state.status is RunStatus.FAILED and failed
    assert all(SECRET.encode() not in event.raw for event in failed)
    assert isinstance(failed[0].payload, AttemptFailed)
    assert "refused" in failed[0].payload.facts.excerpt
    await house.ledger.close()
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "plan"]
    assert not [path for path in kept if SECRET.encode() in path.read_bytes()]


async def test_a_secret_output_must_be_declared_as_one(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    house.redactor.register("token", SECRET)
    (tmp_path / "plan" / "work.py").write_text(
        f"def give():\n    return {{'token': '{SECRET[:7]}' + '{SECRET[7:]}'}}\n"
    )
    undeclared = python_step("one", "give")
    state = await house.run(Plan(name="undeclared", steps=(undeclared,), folder=str(tmp_path / "plan")))
    assert state.failure.kind is FailureKind.SECRET_UNDECLARED
    declared = python_step("one", "give", outputs={"token": DeclaredOutput(secret=True)})
    plan = Plan(name="declared", steps=(declared,), folder=str(tmp_path / "plan"))
    state = await house.run(plan, "run-2")
    assert state.status is RunStatus.SUCCEEDED
    events = await house.ledger.read(run_stream("run-2"))
    finished = [event for event in events if isinstance(event.payload, AttemptFinished)]
    assert isinstance(finished[0].payload, AttemptFinished)
    assert finished[0].payload.secret_outputs == ("token",)
    assert all(SECRET.encode() not in event.raw for event in events)
