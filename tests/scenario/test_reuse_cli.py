"""A linked run by the real command line: what is proven is not repeated, and what is not says why."""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path

import msgspec
from tests.repositories import commit_all
from tests.scenario.conftest import Cli, kill, wait_for
from tests.scenario.test_kills import run_ids, state_of

from recoup.ledger.sqlite import SqliteLedger
from recoup.testing.ledger_suite import facts, into, submitted

PLAN = """
version: 1
name: report
workspace: {git: ./repo}
inputs: {month: {default: "1"}, pin: {secret: true}}
steps:
  - id: fetch
    run: echo fetch >> "$JOURNAL"; echo "rows=7" >> "$RECOUP_OUTPUT"; echo 7 > data
    expect: [{file: data}]
  - id: build
    run: echo build >> "$JOURNAL"; echo ${{ steps.fetch.outputs.rows }} ${{ inputs.month }} > report
    env: {PIN: "${{ inputs.pin }}"}
    expect: [{file: report}]
  - id: publish
    run: echo publish >> "$JOURNAL"; test -e "$MENDED" || { echo "permission denied"; exit 1; }; cat report
    expect: [{stdout: "7"}]
"""


class Story:
    """A journal of what was performed, and a cause that can be mended."""

    def __init__(self, cli: Cli) -> None:
        self.cli = cli
        self.journal = cli.folder / "journal"
        self.mended = cli.folder / "mended"
        cli.env |= {"JOURNAL": str(self.journal), "MENDED": str(self.mended)}

    def performed(self) -> list[str]:
        """Since this was asked last."""
        lines = self.journal.read_text().split() if self.journal.exists() else []
        self.journal.unlink(missing_ok=True)
        return lines

    def fail(self, plan: str, *args: str) -> str:
        result = self.cli("run", plan, "--json", *args)
        assert result.code == 1, result.err
        assert self.performed() == ["fetch", "build", "publish"]
        self.mended.touch()
        return str(result.document["runId"])


def everything_below(home: Path) -> dict[str, str]:
    """What lies there, but for the database's own notes about who reads it."""
    return {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in home.rglob("*")
        if not path.name.startswith("ledger.") and not path.is_symlink()
    }


def test_a_run_that_failed_goes_on_in_a_linked_run(cli: Cli, repo: Path) -> None:
    story = Story(cli)
    pin = "4711" * 3
    first = story.fail(cli.plan(PLAN), "--input", f"pin={pin}")
    before = (everything_below(cli.home), state_of(cli, first), run_ids(cli))
    preview = cli("resume", first, "--dry-run", "--json")
    assert preview.code == 0, preview.err
    assert (preview.json["reused"], preview.json["frontier"]["stepId"]) == (["fetch", "build"], "publish")
    assert [step["reused"] for step in preview.json["steps"]] == [True, True, False]
    assert before == (everything_below(cli.home), state_of(cli, first), run_ids(cli))
    assert story.performed() == []

    result = cli("resume", first, "--json")
    assert (result.code, story.performed()) == (0, ["publish"])
    assert result.document["parentRunId"] == first
    assert "reuses 2 of 3 steps" in result.err
    assert "permission denied" in result.err, "why it begins where it does"
    ledger = cli.ledger(result.document["runId"])
    assert (ledger["status"], ledger["knownGoodPrefixLength"]) == ("succeeded", 3)
    assert [step.get("reusedFrom") for step in ledger["steps"]] == [first, first, None]
    shown = cli("show", "last", "--evidence", ledger["steps"][0]["evidence"][0])
    assert shown.json["stepId"] == "fetch"
    assert f"sha256:{hashlib.sha256(shown.out.encode()).hexdigest()}" == ledger["steps"][0]["evidence"][0]

    again = cli("resume", "last")
    assert (again.code, "--from-step" in again.err) == (2, True)
    result = cli("resume", "last", "--from-step", "build", "--json")
    assert (result.code, story.performed()) == (0, ["build", "publish"])


def test_an_edited_plan_reuses_what_the_edit_leaves_alone(cli: Cli, repo: Path) -> None:
    story = Story(cli)
    first = story.fail(cli.plan(PLAN))
    appended = (
        PLAN.replace("cat report\n", "cat  report\n") + '  - {id: tell, run: echo tell >> "$JOURNAL"}\n'
    )
    result = cli("run", cli.plan(appended, "edited.yaml"), "--reuse", first, "--json")
    assert (result.code, story.performed()) == (0, ["publish", "tell"])
    assert "begins at publish: not good there" in result.err
    refused = cli("run", cli.plan(PLAN), "--reuse", first, "--from-step", "publish", "--input", "month=2")
    assert refused.code == 2
    assert (
        "build comes before it and cannot be reused: its arguments are not what they were: inputs.month"
        in refused.err
    )
    commit_other(repo)
    preview = cli("run", cli.plan(PLAN), "--reuse", first, "--dry-run")
    assert (preview.code, "the source is at another commit" in preview.out) == (0, True)
    assert cli("run", cli.plan(PLAN), "--dry-run").code == 2
    assert story.performed() == []


def test_what_a_linked_run_has_done_is_not_done_again_from_its_parent(cli: Cli, repo: Path) -> None:
    """The parent failed before `pay`, the linked run after it: whoever resumes the parent again must not pay twice."""
    story = Story(cli)
    pay = '  - {id: pay, run: echo pay >> "$JOURNAL", repeat: never}\n'
    last = '  - {id: end, run: "echo permission denied; exit 1"}\n'
    first = story.fail(cli.plan(PLAN + pay + last))
    assert (cli("resume", first).code, story.performed()) == (1, ["publish", "pay"])
    again = cli("resume", first)
    assert (again.code, story.performed()) == (5, ["publish"])
    assert "pay was done in run" in again.out
    assert cli("control", "last", "cancel", "--reason", "it was paid").code == 0
    assert story.performed() == []


def test_a_secret_in_the_plan_stays_hidden_when_the_environment_has_lost_it(cli: Cli) -> None:
    secret = "zq" + "w" * 8 + "91"
    plan = f"""
    version: 1
    name: quiet
    secrets: [MY_TOKEN]
    steps:
      - {{id: a, run: "echo {secret}; echo permission denied; exit 1"}}
    """
    assert cli("run", cli.plan(plan), env={"MY_TOKEN": secret}).code == 1
    for _ in range(2):
        assert cli("resume", "last").code == 1
    assert len(run_ids(cli)) == 3
    artifacts = [path for path in cli.home.rglob("*") if path.is_file() and "private" not in path.parts]
    assert not [path for path in artifacts if secret.encode() in path.read_bytes()]


def commit_other(repo: Path) -> None:
    (repo / "more").write_text("more\n")
    commit_all(repo, "more")


SLOW = PLAN.replace("cat report", 'touch "$MENDED.begun"; sleep 30; cat report')


def test_a_linked_run_that_is_killed_goes_on_without_repeating_anything(cli: Cli, repo: Path) -> None:
    story = Story(cli)
    first = story.fail(cli.plan(PLAN))
    driver = cli.start("run", cli.plan(SLOW, "slow.yaml"), "--reuse", first)
    wait_for(Path(f"{story.mended}.begun"))
    busy = cli("run", cli.plan(PLAN), "--reuse", "last")
    assert (busy.code, "pause" in busy.err) == (2, True)
    back = cli("resume", "last", "--from-step", "fetch")
    assert (back.code, "Pause it first" in back.err) == (2, True)
    kill(driver)
    preview = cli("resume", "last", "--dry-run", "--json")
    assert preview.json["reused"] == ["fetch", "build"]
    assert cli("control", "last", "pause", "--reason", "look").code == 0
    result = cli("resume", "last", "--from-step", "build", "--dry-run")
    assert "asked for: --from-step build" in result.out
    assert story.performed() == ["publish"]
    driver = cli.start("resume", "last", "--from-step", "build")
    wait_for(story.journal, text="publish")
    assert story.performed() == ["build", "publish"]
    kill(driver)


def test_a_run_that_goes_on_itself_does_not_repeat_what_a_linked_one_has_done(cli: Cli) -> None:
    paid, ok = cli.folder / "paid", cli.folder / "ok"
    plan = cli.plan(f"""
        version: 1
        name: family
        steps:
          - {{id: a, run: "test -e {ok} || {{ echo 'error: connection reset by peer'; exit 1; }}", max_attempts: 1}}
          - {{id: pay, run: "echo paid >> {paid}", repeat: never}}
    """)
    assert cli("run", plan).code == 75
    first = cli("show", "last", "--json").json["runId"]
    ok.touch()
    assert cli("run", plan, "--reuse", first).code == 0
    again = cli("resume", first)
    assert (again.code, "pay was done" in again.err) == (2, True)
    assert paid.read_text() == "paid\n"


def test_two_linked_runs_that_are_driven_at_the_same_time_pay_once(cli: Cli) -> None:
    paid, ok, both = (cli.folder / name for name in ("paid", "ok", "both"))
    plan = cli.plan(f"""
        version: 1
        name: family
        steps:
          - id: wait
            run: |
              test -e {ok} || {{ echo "permission denied"; exit 1; }}
              touch {cli.folder}/waits-$RECOUP_RUN_ID
              while ! test -e {both}; do sleep 0.02; done
          - {{id: pay, run: "echo $RECOUP_RUN_ID >> {paid}", repeat: never}}
    """)
    assert cli("run", plan).code == 1
    first = cli("show", "last", "--json").json["runId"]
    ok.touch()
    drivers = [cli.start("resume", first), cli.start("run", plan, "--reuse", first)]
    deadline = time.monotonic() + 60
    while len(list(cli.folder.glob("waits-*"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    both.touch()
    outputs = [driver.communicate(timeout=60)[0] for driver in drivers]
    codes = [driver.wait() for driver in drivers]
    assert sorted(codes) == [0, 1], outputs
    (payer,) = paid.read_text().split()
    loser = outputs[codes.index(1)]
    assert (
        f"step pay must not be repeated, and run {payer}, which is linked to this one, has begun it" in loser
    )
    again = cli("resume", payer, "--dry-run")
    assert (again.code, paid.read_text().split()) == (2, [payer]), "it has succeeded"


def test_a_family_is_known_however_many_other_runs_there_were_since(cli: Cli) -> None:
    paid, ok = cli.folder / "paid", cli.folder / "ok"
    plan = cli.plan(f"""
        version: 1
        name: family
        steps:
          - {{id: a, run: "test -e {ok} || {{ echo 'permission denied'; exit 1; }}"}}
          - {{id: pay, run: "echo paid >> {paid}", repeat: never}}
          - {{id: b, run: "echo 'permission denied'; exit 1"}}
    """)
    assert cli("run", plan).code == 1
    first = cli("show", "last", "--json").json["runId"]
    ok.touch()
    assert cli("run", plan, "--reuse", first).code == 1
    asyncio.run(_many_runs(cli.home / "ledger.db", 1_100))
    again = cli("run", plan, "--reuse", first)
    assert (again.code, "pay was done" in again.out, paid.read_text()) == (5, True, "paid\n")


async def _many_runs(path: Path, count: int) -> None:
    ledger = SqliteLedger(path)
    later = facts(*(into(f"run:9{number:07d}", submitted("other")) for number in range(count)))
    at = later.at.plus_s(100 * 365 * 86_400)
    await ledger.append(msgspec.structs.replace(later, at=at))
    await ledger.close()
