"""Proven steps in a linked run: real ledger, real git, real evidence and vault, a scripted runtime."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.repositories import commit_all, git, new_repository

from recoup.clock import SystemClock
from recoup.engine.claim import Claimed, claim
from recoup.engine.driver import Driver
from recoup.engine.world import EarlierRun, Job, Watcher
from recoup.errors import Conflict
from recoup.evidence.run_folder import RunFolder
from recoup.evidence.vault import Vault
from recoup.kernel.canonical import digest
from recoup.kernel.earlier import look_back
from recoup.kernel.fold import fold
from recoup.kernel.policies import policy_digest
from recoup.kernel.prefix import ledger_document
from recoup.model import events as ev
from recoup.model.ids import ProcessIdentity, run_stream
from recoup.model.outcome import Captured, Order, Outcome
from recoup.model.plan import (
    ApproveAction,
    FileCheck,
    Handler,
    Input,
    Output,
    Plan,
    Rebuild,
    RegexOutput,
    Repeat,
    RunAction,
    RunCheck,
    Step,
)
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus
from recoup.model.storage import Append, Control, Draft, PolicyBody, StreamAppend
from recoup.model.workspace import Adopted, Baseline, Change, FolderSource, GitSource, Snapshot, Source
from recoup.ports import Clock, Hooks, Workspaces
from recoup.testing.house import Browser, House
from recoup.workspace.workspaces import GitWorkspaces

DENIED = "error: permission denied"
KEY = b"k" * 32
KEEPER = ProcessIdentity("driver", "boot-1", 4242, 7)


class Doing:
    """Does what a command says: `write PATH TEXT`, `say TEXT`, `fail TEXT`, `give NAME TEXT`; several with `;`."""

    inline = True

    def __init__(self) -> None:
        self.done: list[str] = []
        self.broken: set[str] = set()
        self.during: dict[str, Callable[[], Awaitable[Any]]] = {}

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        assert isinstance(order.action, RunAction)
        self.done.append(order.step_id)
        said, code = "", 0
        if order.step_id in self.during:
            await self.during.pop(order.step_id)()
        for word, *rest in (shlex.split(part) for part in str(order.action.command).split(";")):
            match word:
                case "write":
                    path = Path(order.cwd, rest[0])
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(" ".join(rest[1:]) + "\n")
                case "say":
                    said += " ".join(rest) + "\n"
                case "secret":
                    said += f"{rest[0]}={hidden(rest[1])}\n"
                case "fail":
                    code = 1
        if order.step_id in self.broken:
            said, code = said + DENIED, 1
        return Outcome(exit_code=code, stdout=Captured(said.encode(), b"", len(said)))


def hidden(text: str) -> str:
    return f"{text}-{'7' * 12}"


class Folders:
    """Workspaces without git, for all that is not about git: a snapshot is a copy, named by what it holds."""

    def __init__(self, run_dir: Path) -> None:
        self._root = run_dir
        self._store = run_dir / "store"

    async def create(self, source: Source) -> Baseline:
        for folder in (self._store, self._root / "workspaces"):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source.path, self.path(1))
        taken = await self.snapshot(1)
        await self.swap(1, 0)
        return Baseline(taken.tree, taken.manifest)

    def path(self, number: int) -> Path:
        return self._root / "workspaces" / f"{number:04d}"

    def current(self) -> int:
        return int((self._root / "workspace").resolve().name)

    async def snapshot(self, number: int) -> Snapshot:
        tree = contents_digest(self.path(number))
        if not (self._store / tree).exists():
            shutil.copytree(self.path(number), self._store / tree)
        return Snapshot(tree, tree)

    async def change(self, before: str, after: str) -> Change:
        return Change(None if before == after else f"{before}{after}")

    async def patch(self, before: str, after: str, limit_bytes: int) -> bytes:
        return f"{before} {after}"[:limit_bytes].encode()

    async def changed_contents(
        self, before: str, after: str, limit_bytes: int
    ) -> Sequence[tuple[str, bytes]]:
        return []

    async def restore(self, snapshot: Snapshot) -> int:
        number = 1 + max(int(path.name) for path in (self._root / "workspaces").iterdir())
        shutil.copytree(self._store / snapshot.tree, self.path(number))
        return number

    async def matches(self, number: int, snapshot: Snapshot) -> bool:
        return contents_digest(self.path(number)) == snapshot.tree

    async def damage(self, number: int, before: Snapshot) -> str | None:
        del number, before
        return None

    async def adopt(self, run_dir: Path, snapshots: Sequence[Snapshot]) -> Adopted:
        for snapshot in snapshots:
            shutil.copytree(
                run_dir / "store" / snapshot.tree, self._store / snapshot.tree, dirs_exist_ok=True
            )
        return Adopted(len(snapshots))

    async def swap(self, number: int, keep: int) -> None:
        pointer = self._root / "workspace"
        pointer.unlink(missing_ok=True)
        pointer.symlink_to(f"workspaces/{number:04d}")


def contents_digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha1(
        b"\0".join(b"%s %s" % (bytes(path.relative_to(folder)), path.read_bytes()) for path in files)
    ).hexdigest()


MakeWorkspaces = Callable[[Path], Workspaces]


class Linked(House):
    """A house in which one run can reuse another."""

    def __init__(
        self,
        root: Path,
        clock: Clock | None = None,
        make_workspaces: MakeWorkspaces = Folders,
        browser: Browser | None = None,
    ) -> None:
        self.doing = Doing()
        self.make_workspaces = make_workspaces
        policy = Policy(step_max_attempts=1)
        super().__init__(root, runtime=self.doing, clock=clock, policy=policy, browser=browser)
        self.world.runtimes["approve"] = self.doing  # type: ignore[index]

    async def go(
        self,
        plan: Plan,
        run_id: str = "one",
        reuse: str | None = None,
        from_step: str | None = None,
        inputs: Mapping[str, str] | None = None,
    ) -> RunState:
        await self.order(plan, run_id, reuse, from_step, inputs or {})
        return await (await self.linked_driver(run_id)).drive()

    async def order(
        self, plan: Plan, run_id: str, reuse: str | None, from_step: str | None, inputs: Mapping[str, str]
    ) -> None:
        body = policy_digest(self.policy)
        fact = ev.RunSubmitted(
            workflow=plan.name,
            plan_digest=digest(msgspec.to_builtins(plan)),
            plan=plan,
            plan_redacted=False,
            inputs={name: inputs.get(name, spec.default) for name, spec in plan.inputs.items()},
            policy_digest=body,
            parent_run_id=reuse,
            reuse_from=reuse,
            from_step=from_step,
        )
        self.files(run_id).make()
        await self.ledger.append(
            Append(
                at=self.clock.now(),
                streams=(StreamAppend(run_stream(run_id), (Draft(fact.TYPE, self.redactor.seal(fact)),), 0),),
                policies=(PolicyBody(body, self.redactor.seal(self.policy)),),
            )
        )

    async def linked_driver(self, run_id: str) -> Driver:
        taken = await claim(self.world, run_id)
        assert isinstance(taken, Claimed)
        state = await self.state(run_id)
        source = state.lineage.reuse_from if state.driver.delivery == 0 else None
        job = self.job(run_id, state.plan, await self.earlier(source) if source else None)
        return Driver(self.world, job, state, taken.lease, taken.replaced)

    def job(self, run_id: str, plan: Plan, earlier: EarlierRun | None = None) -> Job:
        files = self.files(run_id)
        return Job(
            run_id=run_id,
            plan=plan,
            policy=self.policy,
            files=files,
            redactor=self.world.redactor,
            secrets=Vault(files.private / "secrets", KEY),
            workspaces=self.make_workspaces(files.root) if plan.workspace else None,
            watcher=Watcher(event=self.seen.append),
            earlier=earlier,
        )

    async def earlier(self, run_id: str) -> EarlierRun:
        """Without a look at its family: as it was before another run of it went on."""
        events = await self.ledger.read(run_stream(run_id))
        state = fold(run_id, events)
        return EarlierRun(look_back(state, state.plan, events), self.job(run_id, state.plan))

    def files(self, run_id: str) -> RunFolder:
        return RunFolder(self.root / "runs" / run_id)

    def workspace(self, run_id: str) -> Path:
        return (self.files(run_id).root / "workspace").resolve()

    async def facts(self, run_id: str, kind: type[ev.Payload]) -> list[Any]:
        return [e.payload for e in await self.ledger.read(run_stream(run_id)) if isinstance(e.payload, kind)]


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[Linked]:
    one = Linked(tmp_path / "home")
    yield one
    await one.ledger.close()


@pytest.fixture
async def git_house(tmp_path: Path) -> AsyncIterator[Linked]:
    one = Linked(tmp_path / "home", make_workspaces=GitWorkspaces)
    yield one
    await one.ledger.close()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "README").write_text("hello\n")
    return folder


def step(id: str, command: str = "", **more: Any) -> Step:
    return Step(id=id, action=RunAction(command or f"write {id} {id}"), **more)


def plan_of(source: Path | None, *steps: Step, **more: Any) -> Plan:
    return Plan(
        name="w", steps=steps, workspace=FolderSource(str(source)) if source else None, **more
    )  # fmt: skip


def abc(source: Path | None, **more: Any) -> Plan:
    return plan_of(source, *(step(id, expect=(FileCheck(id),)) for id in "abc"), **more)


def with_step(plan: Plan, index: int, **change: Any) -> Plan:
    steps = list(plan.steps)
    steps[index] = msgspec.structs.replace(steps[index], **change)
    return msgspec.structs.replace(plan, steps=tuple(steps))


def reused(state: RunState) -> list[str]:
    return [record.step_id for record in state.steps if record.reused_from]


async def failed_at(house: Linked, plan: Plan, step_id: str, run_id: str = "one") -> RunState:
    """A run in which this step could not be done, for a reason that is gone afterwards."""
    house.doing.broken = {step_id}
    state = await house.go(plan, run_id)
    assert state.status is RunStatus.FAILED
    house.doing.broken = set()
    house.doing.done = []
    return state


async def reason_of_end(house: Linked, run_id: str = "two") -> str:
    (going_on,) = await house.facts(run_id, ev.ResumeFromStep)
    return str(going_on.reason)


# What is kept


async def test_after_a_middle_failure_only_the_frontier_and_what_follows_runs(
    house: Linked, source: Path
) -> None:
    before = await failed_at(house, abc(source), "b")
    assert (ledger_document(before).frontier or {})["stepId"] == "b"
    state = await house.go(abc(source), "two", reuse="one")
    assert house.doing.done == ["b", "c"]
    assert (state.status, reused(state), state.lineage.parent_run_id) == (RunStatus.SUCCEEDED, ["a"], "one")
    assert ledger_document(state).status == "succeeded"
    assert sorted(path.name for path in house.workspace("two").iterdir()) == ["README", "a", "b", "c"]
    assert "failed" in await reason_of_end(house)


async def test_a_run_whose_every_step_is_reused_succeeds_at_once_with_the_final_tree(
    git_house: Linked, source: Path
) -> None:
    house = git_house
    await house.go(abc(source))
    house.doing.done = []
    state = await house.go(abc(source), "two", reuse="one")
    assert (state.status, house.doing.done, state.workspaces.trial) == (RunStatus.SUCCEEDED, [], None)
    assert sorted(path.name for path in house.workspace("two").iterdir()) == ["README", "a", "b", "c"]
    assert house.workspace("two").name == f"{state.workspaces.current:04d}"


async def test_an_appended_step_runs_only_itself(house: Linked, source: Path) -> None:
    await house.go(abc(source))
    house.doing.done = []
    longer = plan_of(source, *abc(source).steps, step("d"))
    state = await house.go(longer, "two", reuse="one")
    assert (state.status, house.doing.done) == (RunStatus.SUCCEEDED, ["d"])


async def test_a_run_that_reused_another_can_be_reused_itself(house: Linked, source: Path) -> None:
    await failed_at(house, abc(source), "b")
    house.doing.broken = {"c"}
    await house.go(abc(source), "two", reuse="one")
    house.doing.broken, house.doing.done = set(), []
    state = await house.go(abc(source), "three", reuse="two")
    assert house.doing.done == ["c"]
    assert [record.reused_from for record in state.steps] == ["one", "two", None]


async def test_a_recovered_step_is_reused_as_recovered(house: Linked, source: Path) -> None:
    rescued = step("a", "fail", expect=(FileCheck("a"),), rescue=(Handler(action=RunAction("write a a")),))
    plan = plan_of(source, rescued, step("b"))
    before = await failed_at(house, plan, "b")
    entry = ledger_document(before).steps[0]
    assert (entry.verdict, entry.phase) == ("recovered", "rescue")
    state = await house.go(plan, "two", reuse="one")
    entry = ledger_document(state).steps[0]
    assert (house.doing.done, entry.verdict, entry.phase) == (["b"], "recovered", "rescue")
    assert (state.status, entry.reused_from) == (RunStatus.SUCCEEDED, "one")


async def test_a_step_that_must_be_rebuilt_is_performed_again_after_the_restore(
    git_house: Linked, source: Path
) -> None:
    house = git_house
    (source / ".gitignore").write_text("deps/\n")
    git(source, "init", "-q")
    plan = plan_of(source, step("deps", "write deps/x 1", rebuild=Rebuild.RERUN), step("b"), step("c"))
    await failed_at(house, plan, "c")
    state = await house.go(plan, "two", reuse="one")
    assert (state.status, house.doing.done) == (RunStatus.SUCCEEDED, ["deps", "c"])
    assert (house.workspace("two") / "deps" / "x").exists()
    assert await house.facts("two", ev.CheckpointIncomplete), "what the checkpoint lacks is said again"


async def test_a_skipped_step_is_reused_as_skipped_until_its_condition_changes(
    house: Linked, source: Path
) -> None:
    inputs = {"mode": Input(default="quick")}
    maybe = step("b", when="${{ inputs.mode }} == full")
    plan = plan_of(source, step("a"), maybe, step("c"), inputs=inputs)
    await failed_at(house, plan, "c")
    state = await house.go(plan, "two", reuse="one")
    assert (house.doing.done, state.steps[1].skipped) == (["c"], True)
    assert (ledger_document(state).steps[1].invalidation_reason or "").startswith("when: ")
    house.doing.done = []
    await house.go(plan, "three", reuse="two", inputs={"mode": "full"})
    assert house.doing.done == ["b", "c"]
    assert await reason_of_end(house, "three") == "its `when` gives another answer now"


async def test_an_approval_is_reused_while_its_question_is_the_same(house: Linked, source: Path) -> None:
    gate = Step(id="gate", action=ApproveAction("Release ${{ inputs.what }}?"))
    plan = plan_of(source, step("a"), gate, step("c"), inputs={"what": Input(default="v1")})
    assert (await house.go(plan)).status is RunStatus.WAITING
    yes = Control(
        id="yes",
        run_id="one",
        action="approve",
        reason="fine",
        actor="me",
        at=house.clock.now(),
        step_id="gate",
    )
    await house.ledger.send_control(yes)
    house.doing.broken = {"c"}
    assert (await (await house.linked_driver("one")).drive()).status is RunStatus.FAILED
    house.doing.broken = set()
    state = await house.go(plan, "two", reuse="one")
    assert (state.status, reused(state)) == (RunStatus.SUCCEEDED, ["a", "gate"])
    state = await house.go(plan, "three", reuse="one", inputs={"what": "v2"})
    assert (state.status, state.hold.waiting_for) == (RunStatus.WAITING, "approval")
    assert await reason_of_end(house, "three") == "its arguments are not what they were: inputs.what"


# What is not kept


async def test_changed_arguments_invalidate_and_the_ledger_says_which(house: Linked, source: Path) -> None:
    month = step("b", "write b ${{ inputs.month }}", expect=(FileCheck("b"),))
    plan = plan_of(source, step("a"), month, step("c"), inputs={"month": Input(default="1")})
    await house.go(plan)
    house.doing.done = []
    state = await house.go(plan, "two", reuse="one", inputs={"month": "2"})
    (invalidated,) = await house.facts("two", ev.StepInvalidated)
    assert house.doing.done == ["b", "c"]
    assert (invalidated.step_id, invalidated.reason) == (
        "b",
        "its arguments are not what they were: inputs.month",
    )
    assert (house.workspace("two") / "b").read_text() == "2\n"
    assert state.status is RunStatus.SUCCEEDED


async def test_a_changed_source_invalidates_everything(house: Linked, source: Path) -> None:
    await failed_at(house, abc(source), "c")
    (source / "README").write_text("changed\n")
    await house.go(abc(source), "two", reuse="one")
    (invalidated,) = await house.facts("two", ev.StepInvalidated)
    assert house.doing.done == ["a", "b", "c"]
    assert (invalidated.step_id, invalidated.reason) == ("a", "the source holds other files than in that run")


async def test_a_new_commit_invalidates_everything(git_house: Linked, source: Path) -> None:
    house = git_house
    new_repository(source, {})
    plan = msgspec.structs.replace(abc(source), workspace=GitSource(str(source)))
    await failed_at(house, plan, "c")
    state = await house.go(plan, "two", reuse="one")
    assert reused(state) == ["a", "b"]
    (source / "README").write_text("changed\n")
    commit_all(source, "second")
    await house.go(plan, "three", reuse="one")
    assert "another commit" in await reason_of_end(house, "three")


async def test_a_step_that_was_inserted_runs_and_so_does_all_after_it(house: Linked, source: Path) -> None:
    await house.go(abc(source))
    house.doing.done = []
    a, b, c = abc(source).steps
    await house.go(plan_of(source, a, step("new"), b, c), "two", reuse="one")
    (invalidated,) = await house.facts("two", ev.StepInvalidated)
    assert house.doing.done == ["new", "b", "c"]
    assert (invalidated.step_id, invalidated.reason) == ("b", "after the frontier: new")


async def test_evidence_that_was_altered_or_is_gone_proves_nothing(house: Linked, source: Path) -> None:
    before = await failed_at(house, abc(source), "c")
    (handle,) = before.steps[1].results.evidence
    path = next((house.root / "evidence").rglob(handle.removeprefix("sha256:")))
    path.chmod(0o600)
    path.write_bytes(path.read_bytes() + b" ")
    await house.go(abc(source), "two", reuse="one")
    assert "was altered" in await reason_of_end(house)
    path.unlink()
    await house.go(abc(source), "three", reuse="one")
    assert "is gone" in await reason_of_end(house, "three")
    assert house.doing.done == ["b", "c", "b", "c"]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.chmod(0o600)
    path.write_bytes(bytes(data))


def lose_store(folder: Path) -> None:
    (folder / "private" / "store.git").rename(folder / "private" / "moved.git")


def damage_packs(folder: Path) -> None:
    for path in (folder / "private" / "store.git" / "objects" / "pack").glob("*.pack"):
        flip(path)


def lose_manifests(folder: Path) -> None:
    for path in (folder / "private" / "manifests").iterdir():
        path.unlink()


@pytest.mark.parametrize("damage", [lose_store, damage_packs, lose_manifests])
async def test_a_damaged_store_is_not_reused(
    git_house: Linked, source: Path, damage: Callable[[Path], None]
) -> None:
    house = git_house
    await failed_at(house, abc(source), "c")
    damage(house.files("one").root)
    state = await house.go(abc(source), "two", reuse="one")
    assert (state.status, house.doing.done) == (RunStatus.SUCCEEDED, ["a", "b", "c"])
    assert "its checkpoint cannot be brought over" in await reason_of_end(house)


async def test_only_the_checkpoints_from_the_broken_one_on_are_lost(git_house: Linked, source: Path) -> None:
    house = git_house
    before = await failed_at(house, abc(source), "c")
    assert before.steps[1].results.checkpoint is not None
    name = before.steps[1].results.checkpoint.manifest.removeprefix("sha256:")
    (house.files("one").private / "manifests" / f"{name}.json").unlink()
    state = await house.go(abc(source), "two", reuse="one")
    assert (reused(state), house.doing.done) == (["a"], ["b", "c"])


async def test_a_tampered_object_never_takes_the_place_of_another(git_house: Linked, source: Path) -> None:
    """A loose object of the earlier store, put under the id of another one, hides the packed one from git."""
    house = git_house
    before = await failed_at(house, abc(source), "c")
    store = house.files("one").private / "store.git"
    assert before.steps[0].results.checkpoint is not None
    listed = git(store, "ls-tree", before.steps[0].results.checkpoint.tree, "a").split()[2]
    for path in (store / "objects" / "pack").iterdir():
        path.rename(store / path.name)
    for path in store.glob("*.pack"):
        git(store, "unpack-objects", "-q", stdin=path.read_bytes())
    evil = git(store, "hash-object", "-w", "--stdin", stdin=b"evil\n").strip()
    target = store / "objects" / listed[:2] / listed[2:]
    target.unlink()
    target.write_bytes((store / "objects" / evil[:2] / evil[2:]).read_bytes())
    state = await house.go(abc(source), "two", reuse="one")
    assert (reused(state), house.doing.done) == ([], ["a", "b", "c"])
    assert (house.workspace("two") / "a").read_text() == "a\n"


async def test_an_operators_change_in_between_ends_the_prefix(house: Linked, source: Path) -> None:
    wish = Control(id="t", run_id="one", action="takeover", reason="r", actor="me", at=house.clock.now())
    house.doing.during = {"a": lambda: house.ledger.send_control(wish)}
    assert (await house.go(abc(source))).hold.takeover
    (house.workspace("one") / "README").write_text("by hand\n")
    await house.ledger.send_control(msgspec.structs.replace(wish, id="r", action="resume"))
    house.doing.broken = {"c"}
    assert (await (await house.linked_driver("one")).drive()).status is RunStatus.FAILED
    house.doing.broken, house.doing.done = set(), []
    await house.go(abc(source), "two", reuse="one")
    assert house.doing.done == ["b", "c"]
    assert await reason_of_end(house) == "an operator changed the workspace before it"


async def test_an_operators_change_that_a_checkpoint_holds_too_ends_the_prefix_before_it(
    house: Linked, source: Path
) -> None:
    """The `always` of `a` came after the operator, and the checkpoint after both."""
    wish = Control(id="t", run_id="one", action="takeover", reason="r", actor="me", at=house.clock.now())
    house.doing.during = {"a": lambda: house.ledger.send_control(wish)}
    plan = with_step(abc(source), 0, always=(Handler(action=RunAction("write tidy up")),))
    state = await house.go(plan)
    assert (state.hold.takeover, state.progress.always_pending) == (True, (0,))
    (house.workspace("one") / "README").write_text("by hand\n")
    await house.ledger.send_control(msgspec.structs.replace(wish, id="r", action="resume"))
    house.doing.broken = {"c"}
    assert (await (await house.linked_driver("one")).drive()).status is RunStatus.FAILED
    house.doing.broken, house.doing.done = set(), []
    await house.go(plan, "two", reuse="one")
    assert house.doing.done == ["a", "a", "b", "c"]
    assert await reason_of_end(house) == "an operator changed the workspace before its `always` was done"


async def test_what_an_always_handler_was_given_counts_too(house: Linked, source: Path) -> None:
    after = Handler(action=RunAction("write note ${{ inputs.who }}"))
    plan = plan_of(source, step("a", always=(after,)), step("b"), inputs={"who": Input(default="x")})
    await failed_at(house, plan, "b")
    await house.go(plan, "two", reuse="one")
    assert house.doing.done == ["b"]
    await house.go(plan, "three", reuse="one", inputs={"who": "y"})
    assert await reason_of_end(house, "three") == "the arguments of its handlers are not what they were"


async def test_what_the_checkpoint_after_an_always_handler_lacks_is_known(
    git_house: Linked, source: Path
) -> None:
    (source / ".gitignore").write_text("out/\n")
    always = (Handler(action=RunAction("write mark made")),)
    first = step("a", "write out/x made", expect=(FileCheck("out/x"),), always=always)
    plan = plan_of(source, first, step("b"))
    await failed_at(git_house, plan, "b")
    incomplete = await git_house.facts("one", ev.CheckpointIncomplete)
    assert [fact.step_id for fact in incomplete] == ["a", "a"]
    state = await git_house.go(plan, "two", reuse="one")
    assert (state.status, reused(state), git_house.doing.done[0]) == (RunStatus.SUCCEEDED, [], "a")
    assert "does not hold out" in await reason_of_end(git_house)


async def test_an_output_that_nobody_kept_is_made_again(house: Linked, source: Path) -> None:
    await house.go(plan_of(source, step("a")))
    house.doing.done = []
    wants = step("b", "say ${{ steps.a.outputs.more }}")
    await house.go(plan_of(source, step("a"), wants), "two", reuse="one")
    assert await reason_of_end(house) == "an output that is wanted now was not kept: more"


# Secrets

TOKEN: dict[str, Output] = {"token": RegexOutput("token=(\\S+)", secret=True)}


def with_secret(source: Path) -> Plan:
    use = step("use", "say got it", env={"TOKEN": "${{ steps.login.outputs.token }}"})
    return plan_of(source, step("login", "secret token abcd", outputs=TOKEN), use, step("end"))


async def test_a_secret_output_is_brought_over_and_stays_hidden(house: Linked, source: Path) -> None:
    await failed_at(house, with_secret(source), "end")
    house.redactor = house.world.redactor  # type: ignore[assignment]
    state = await house.go(with_secret(source), "two", reuse="one")
    assert (state.status, house.doing.done) == (RunStatus.SUCCEEDED, ["end"])
    key = "steps.login.outputs.token"
    assert Vault(house.files("two").private / "secrets", KEY).get(key) == hidden("abcd")
    assert key in house.world.redactor.found_in(hidden("abcd").encode())
    for event in await house.ledger.read(run_stream("two")):
        assert hidden("abcd").encode() not in event.raw


@pytest.mark.parametrize("damage", ["lost", "altered"])
async def test_a_secret_output_that_cannot_be_had_ends_the_prefix(
    house: Linked, source: Path, damage: str
) -> None:
    await failed_at(house, with_secret(source), "end")
    (kept,) = (house.files("one").private / "secrets").iterdir()
    if damage == "lost":
        kept.unlink()
    else:
        flip(kept)
    state = await house.go(with_secret(source), "two", reuse="one")
    assert (state.status, house.doing.done) == (RunStatus.SUCCEEDED, ["login", "use", "end"])
    assert "secret value" in await reason_of_end(house)


async def test_an_output_that_is_a_secret_by_now_is_not_recorded_again(house: Linked, source: Path) -> None:
    say = step("a", "secret n abcd", outputs={"n": RegexOutput("n=(\\S+)")})
    plan = plan_of(source, say, step("b"))
    await failed_at(house, plan, "b")
    house.world.redactor.register("PASSWORD", hidden("abcd"))
    await house.go(plan, "two", reuse="one")
    assert await reason_of_end(house) == "an output of it holds what is a secret now"


# Without a workspace


def unmanaged(folder: Path, *steps: Step) -> Plan:
    return Plan(name="w", steps=steps, folder=str(folder))


async def test_without_a_workspace_the_world_itself_must_prove_it(tmp_path: Path, source: Path) -> None:
    house = Linked(tmp_path / "home", SystemClock())  # a check that is a command ends by the real clock
    plan = unmanaged(
        source,
        step("a", expect=(FileCheck("a"), RunCheck("test -s a"))),
        step("b", expect=(FileCheck("b"),)),
        step("c"),
        step("d"),
    )
    await failed_at(house, plan, "d")
    state = await house.go(plan, "two", reuse="one")
    assert (reused(state), house.doing.done) == (["a", "b"], ["c", "d"])
    assert await reason_of_end(house) == "nothing proves that what it left is still there"
    (source / "a").write_text("")
    house.doing.done = []
    await house.go(plan, "three", reuse="one")
    assert house.doing.done == ["a", "b", "c", "d"]
    assert "test -s a" in await reason_of_end(house, "three")
    await house.ledger.close()


# Refusals


async def test_a_run_that_cannot_begin_where_it_was_told_to_fails_and_says_why(
    house: Linked, source: Path
) -> None:
    await failed_at(house, abc(source), "c")
    (source / "README").write_text("changed\n")
    state = await house.go(abc(source), "two", reuse="one", from_step="c")
    assert (state.status, state.driver.delivery, house.doing.done) == (RunStatus.FAILED, 1, [])
    assert "a comes before it and cannot be reused" in state.reason


async def test_a_step_that_must_not_be_repeated_is_not(house: Linked, source: Path) -> None:
    plan = with_step(abc(source), 1, repeat=Repeat.NEVER)
    await failed_at(house, plan, "c")
    assert (await house.go(plan, "two", reuse="one")).status is RunStatus.SUCCEEDED
    house.doing.done = []
    (source / "README").write_text("changed\n")
    state = await house.go(plan, "three", reuse="one")
    assert (state.status, house.doing.done) == (RunStatus.ESCALATED, ["a"])
    assert "step b was done in run one and must not be repeated" in state.reason


async def test_a_step_whose_outputs_were_lost_was_done_all_the_same(house: Linked, source: Path) -> None:
    output = {"receipt": RegexOutput(r"receipt=(\d+)")}
    plan = plan_of(source, step("pay", "say paid", repeat=Repeat.NEVER, outputs=output), step("b"))
    state = await house.go(plan)
    assert (state.status, state.failure.kind) == (RunStatus.FAILED, "output_invalid")
    state = await house.go(plan, "two", reuse="one")
    assert (state.status, house.doing.done) == (RunStatus.ESCALATED, ["pay"])
    assert "pay may have been done in run one" in state.reason


async def test_a_run_that_is_gone_is_not_gone_on_from(house: Linked, source: Path) -> None:
    with pytest.raises(Conflict, match="run one"):
        await house.order(abc(source), "two", "one", None, {})
    assert (await house.ledger.runs()).rows == ()


async def test_a_run_that_is_gone_is_not_silently_done_without(house: Linked, source: Path) -> None:
    await house.order(abc(source), "one", None, None, {})
    await house.order(abc(source), "two", "one", None, {})
    with sqlite3.connect(house.root / "ledger.db") as direct:
        direct.execute(
            "DELETE FROM events WHERE place >> 32 = (SELECT id FROM streams WHERE name = 'run:one')"
        )
    direct.close()
    taken = await claim(house.world, "two")
    assert isinstance(taken, Claimed)
    state = await Driver(
        house.world, house.job("two", abc(source)), await house.state("two"), taken.lease
    ).drive()
    assert (state.status, house.doing.done) == (RunStatus.FAILED, [])


# Runs that go on from the same one at the same time


class Outside(Doing):
    """As a runtime with processes of its own: an attempt has begun when the ledger says that it was launched."""

    inline = False

    def __init__(self) -> None:
        super().__init__()
        self.dies_at: str | None = None

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        if order.step_id == self.dies_at:
            self.dies_at = None
            raise Killed
        await hooks.launched(KEEPER)
        return await super().perform(order, hooks)


def paying(source: Path | None, **more: Any) -> Plan:
    return plan_of(source, step("a"), step("pay", "say paid", repeat=Repeat.NEVER, **more), step("b"))


def outside(house: Linked) -> Outside:
    house.doing = runtime = Outside()
    house.world.runtimes["run"] = runtime  # type: ignore[index]
    return runtime


async def test_of_two_linked_runs_that_are_driven_at_the_same_time_one_does_what_must_be_done_once(
    house: Linked, source: Path
) -> None:
    await failed_at(house, paying(source), "a")
    rival: list[RunState] = []

    async def another() -> None:
        rival.append(await house.go(paying(source), "three", reuse="one"))

    house.doing.during["a"] = another
    state = await house.go(paying(source), "two", reuse="one")
    assert (rival[0].status, state.status, state.failure.retryable) == (
        RunStatus.SUCCEEDED,
        RunStatus.FAILED,
        False,
    )
    assert house.doing.done == ["a", "a", "pay", "b"]
    assert (
        "step pay must not be repeated, and run three, which is linked to this one, has begun it"
        in state.reason
    )
    assert (state.steps[0].verdict, state.steps[1].spent.attempts) == ("unverified", 0)
    assert fold("two", await house.ledger.read(run_stream("two"))) == state


async def test_nobody_is_asked_about_what_the_other_run_is_doing(house: Linked, source: Path) -> None:
    """Asked in the midst of it, a person says truly that it was not done, and it would be done twice."""
    begun: list[RunState] = []

    async def another() -> None:
        begun.append(await house.go(paying(source), "two", reuse="one"))

    house.doing.during["pay"] = another
    assert (await house.go(paying(source))).status is RunStatus.SUCCEEDED
    assert (begun[0].status, begun[0].failure.retryable) == (RunStatus.FAILED, False)
    assert begun[0].reason == (
        "step pay must not be repeated, and run one, which is linked to this one, has begun it: "
        "go on there (recoup show one)"
    )
    assert house.doing.done == ["a", "pay", "b"]


async def test_a_deed_with_other_arguments_is_another_one(house: Linked, source: Path) -> None:
    plan = plan_of(
        source,
        step("a"),
        step("pay", "say ${{ inputs.to }}", repeat=Repeat.NEVER),
        inputs={"to": Input(default="x")},
    )
    await failed_at(house, plan, "a")

    async def another() -> None:
        await house.go(plan, "three", reuse="one", inputs={"to": "y"})

    house.doing.during["a"] = another
    assert (await house.go(plan, "two", reuse="one")).status is RunStatus.SUCCEEDED
    assert house.doing.done == ["a", "a", "pay", "pay"]


async def test_what_failed_without_being_done_may_be_done_by_another_run(house: Linked, source: Path) -> None:
    await failed_at(house, paying(source), "a")

    async def another() -> None:
        house.doing.broken = {"pay"}
        await house.go(paying(source), "three", reuse="one")
        house.doing.broken = set()

    house.doing.during["a"] = another
    assert (await house.go(paying(source), "two", reuse="one")).status is RunStatus.SUCCEEDED
    assert house.doing.done == ["a", "a", "pay", "pay", "b"]


async def test_what_was_begun_by_a_driver_that_is_lost_is_its_runs_until_somebody_looked(
    house: Linked, source: Path
) -> None:
    """It may have been launched a moment later: only who takes that run up can know."""
    runtime = outside(house)
    await failed_at(house, paying(source), "a")
    runtime.dies_at = "pay"
    with pytest.raises(Killed):
        await house.go(paying(source), "two", reuse="one")
    state = await house.go(paying(source), "three", reuse="one")
    assert (state.status, "run two" in state.reason) == (RunStatus.FAILED, True)
    house.census.restart()
    state = await (await house.linked_driver("two")).drive()
    assert (state.status, runtime.done.count("pay")) == (RunStatus.SUCCEEDED, 1)


async def test_what_a_cancelled_run_had_not_launched_is_free_again(house: Linked, source: Path) -> None:
    runtime = outside(house)
    await failed_at(house, paying(source), "a")
    runtime.dies_at = "pay"
    with pytest.raises(Killed):
        await house.go(paying(source), "two", reuse="one")
    house.census.restart()
    assert (await answer(house, "two", "cancel")).status is RunStatus.CANCELLED
    house.census.dead.clear()
    state = await house.go(paying(source), "three", reuse="one")
    assert (state.status, runtime.done.count("pay")) == (RunStatus.SUCCEEDED, 1)


@pytest.mark.parametrize(("said", "free"), [("done", False), ("not-done", True)])
async def test_an_operators_word_settles_it_for_the_whole_family(
    house: Linked, source: Path, said: str, free: bool
) -> None:
    plan = paying(source, expect=(FileCheck("receipt"),))
    await failed_at(house, plan, "a")
    state = await house.go(plan, "two", reuse="one")
    assert state.status is RunStatus.ESCALATED, "it ended well, and left no receipt"
    await answer(house, "two", "settle", said)
    house.doing.done = []
    await house.go(plan, "three", reuse="one")
    assert house.doing.done == (["a", "pay"] if free else ["a"])


async def test_a_rescue_that_another_run_has_made_superfluous_is_left_out_but_not_the_always(
    house: Linked, source: Path
) -> None:
    mend, clean = (Handler(action=RunAction(f"write {name} x")) for name in ("mended", "cleaned"))
    plan = paying(source, rescue=(mend,), always=(clean,))
    await failed_at(house, plan, "a")
    house.doing.broken = {"pay"}

    async def another() -> None:
        house.doing.broken = set()
        plain = paying(source)
        assert (await house.go(plain, "three", reuse="one")).status is RunStatus.SUCCEEDED
        house.doing.broken = {"pay"}

    await house.order(plan, "two", "one", None, {})
    driver = await house.linked_driver("two")
    given_up = asyncio.Event()
    watched = house.ledger.append

    async def append(wanted: Append) -> Any:
        starts = [draft.fact() for part in wanted.tail for draft in part.drafts]
        if not given_up.is_set() and any(
            isinstance(one, ev.AttemptStarted) and one.phase == "rescue" for one in starts
        ):
            given_up.set()
            await another()
        return await watched(wanted)

    house.ledger.append = append  # type: ignore[method-assign, assignment]
    state = await driver.drive()
    assert (state.status, given_up.is_set()) == (RunStatus.FAILED, True)
    assert "run three, which is linked to this one, has begun it" in state.reason
    assert sorted(path.name for path in house.workspace("two").iterdir()) == ["README", "a", "cleaned"]


async def answer(house: Linked, run_id: str, action: str, argument: str | None = None) -> RunState:
    wish = Control(
        id=f"{run_id}-{action}",
        run_id=run_id,
        action=action,
        reason="looked",
        actor="eve",
        at=house.clock.now(),
        argument=argument,
    )
    await house.ledger.send_control(wish)
    return await (await house.linked_driver(run_id)).answer()


# Drivers that are lost


class Killed(BaseException):
    """As by kill -9: nothing more is written."""


class KilledInRestore(Folders):
    async def restore(self, snapshot: Snapshot) -> int:
        raise Killed


class KilledBeforeSwap(Folders):
    async def swap(self, number: int, keep: int) -> None:
        raise Killed


class KilledInAdoption(Folders):
    async def adopt(self, run_dir: Path, snapshots: Sequence[Snapshot]) -> Any:
        await super().adopt(run_dir, snapshots)
        raise Killed


@pytest.mark.parametrize("dies", [KilledInAdoption, KilledInRestore, KilledBeforeSwap])
@pytest.mark.parametrize("breaks", ["c", ""])
async def test_a_driver_that_is_lost_anywhere_in_between_changes_nothing(
    house: Linked, source: Path, dies: type[Folders], breaks: str
) -> None:
    if breaks:
        await failed_at(house, abc(source), breaks)
    else:
        await house.go(abc(source))
        house.doing.done = []
    house.make_workspaces = dies
    with pytest.raises(Killed):
        await house.go(abc(source), "two", reuse="one")
    house.census.restart()
    house.make_workspaces = Folders
    state = await (await house.linked_driver("two")).drive()
    assert (state.status, house.doing.done) == (RunStatus.SUCCEEDED, ["c"] if breaks else [])
    assert sorted(path.name for path in house.workspace("two").iterdir()) == ["README", "a", "b", "c"]
    assert len(reused(state)) == (2 if breaks else 3)
    assert fold("two", await house.ledger.read(run_stream("two"))) == state
