"""Heals are looked through by the real command line: what was taken, what is accepted into the plan, what is forbidden."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.browser_house import needs_browser
from tests.integration.heal_house import Shop, plan_file
from tests.repositories import git
from tests.scenario.conftest import Cli
from tests.scenario.test_kills import asked

from recoup.model.events import TargetLearned, TargetRejected
from recoup.model.ids import targets_stream
from recoup.testing.pages import Answer, Site

ACCEPTED = '            name: "Approve invoice"\n'


@pytest.fixture
def plan(cli: Cli) -> Path:
    """Of a run with two heals, in the command line's home."""

    async def run() -> None:
        shop = Shop(cli.home)
        state = await shop.run_file(path, "run-1")
        await shop.ledger.close()
        assert state.counts.heals == 2, state.reason

    path = plan_file(cli.folder)
    asyncio.run(run())
    return path


def decided(cli: Cli, kind: type[TargetLearned | TargetRejected]) -> list[TargetLearned | TargetRejected]:
    events = asked(cli, lambda ledger: ledger.read(targets_stream("shop")))
    return [event.payload for event in events if isinstance(event.payload, kind) and event.payload.by]


def test_a_heal_is_listed_shown_accepted_as_a_patch_and_then_in_the_file(cli: Cli, plan: Path) -> None:
    listed = cli("heals", "list", "--json").json
    assert [one["heal"] for one in listed] == ["run-1/save", "run-1/approve"], "the newest first"
    assert [(one["state"], one["verified"], one["confidence"]) for one in listed] == [
        ("waiting", True, 0.8),
        ("applied", True, 0.97),
    ], "what is sure was learned by itself"
    assert listed[1]["taken"] == "button 'Approve invoice'"
    words = cli("heals", "list", "--workflow", "shop", "--limit", "1").out
    assert "waiting   run-1/save" in words and "80% sure" in words and len(words.splitlines()) == 1

    shown = cli("heals", "show", "last/app")
    assert shown.code == 0, shown.err
    assert "candidates\n   97.0%  button 'Approve invoice'\n" in shown.out
    told = cli("heals", "show", "last/app", "--json").json["candidates"]
    assert told == [{"role": "button", "name": "Approve invoice", "confidence": 0.97}]
    assert "name" in shown.out and "'Approve invoice'" in shown.out
    assert '-        name: "Approve"\n+        name: "Approve invoice"\n' in shown.out

    before = plan.read_text()
    refused = cli("heals", "accept", "run-1/approve")
    assert (refused.code, "nobody can be asked here" in refused.err) == (2, True)

    patched = cli("heals", "accept", "run-1/approve", "--patch", "heal.patch")
    assert patched.code == 0, patched.err
    assert plan.read_text() == before, "a patch is for a pull request"
    after = before.replace('name: "Approve"', 'name: "Approve invoice"')
    for how, tool in (
        ("git", ["git", "apply", "heal.patch"]),
        ("patch", ["patch", "-p1", "-i", "../heal.patch"]),
    ):
        folder = cli.folder / how
        folder.mkdir()
        (folder / "plan.yaml").write_text(before)
        if how == "git":
            git(folder, "init", "-q")
            (folder / "heal.patch").write_bytes((cli.folder / "heal.patch").read_bytes())
        subprocess.run(tool, cwd=folder, check=True, capture_output=True)
        assert (folder / "plan.yaml").read_text() == after, how

    accepted = cli("heals", "accept", "run-1/approve", "--yes")
    assert (accepted.code, plan.read_text()) == (0, after), accepted.err
    assert "accepted by" in accepted.out and "already" in accepted.out
    again = cli("heals", "accept", "run-1/approve", "--yes", "--json").json
    assert (again["plans"], plan.read_text()) == ([], after)
    assert again["accepted"][0]["already"] and again["accepted"][0]["by"]
    assert len(decided(cli, TargetLearned)) == 1, "once"
    late = cli("heals", "reject", "run-1/approve", "--reason", "wrong")
    assert (late.code, "was accepted by" in late.err) == (2, True)
    assert cli("heals", "list", "--waiting", "--json").json[0]["stepId"] == "save"


def test_what_was_rejected_is_forbidden_and_cannot_be_accepted(cli: Cli, plan: Path) -> None:
    before = plan.read_bytes()
    rejected = cli("heals", "reject", "run-1/approve", "--reason", "another invoice's", "--json")
    assert (rejected.code, rejected.json["state"], rejected.json["reason"]) == (
        0,
        "rejected",
        "another invoice's",
    )
    (told,) = decided(cli, TargetRejected)
    assert told.identity and told.target_digest and told.step_id == "approve"
    assert "already" in cli("heals", "reject", "run-1/approve", "--reason", "twice").out
    refused = cli("heals", "accept", "run-1/approve", "--yes", "--json")
    assert (refused.code, "was rejected by" in refused.json["error"]) == (2, True)
    assert "another invoice's" in refused.json["error"]
    assert plan.read_bytes() == before
    assert decided(cli, TargetLearned) == []


def test_all_that_is_sure_is_accepted_in_one_go_and_the_rest_is_left_alone(cli: Cli, plan: Path) -> None:
    before = plan.read_bytes()
    dry = cli("heals", "accept", "--sure", "--dry-run")
    assert (dry.code, plan.read_bytes(), decided(cli, TargetLearned)) == (0, before, [])
    assert "run-1/approve would be accepted" in dry.out and f"{plan}: would be changed" in dry.out
    assert "left alone: run-1/save: 80.0% sure" in dry.out and '+        name: "Approve invoice"' in dry.out
    told = cli("heals", "accept", "--sure", "--dry-run", "--json").json
    assert (told["dryRun"], told["accepted"], told["acceptable"]) == (True, [], ["run-1/approve"])
    assert not told["plans"][0]["changed"]
    result = cli("heals", "accept", "--sure", "--yes")
    assert result.code == 0, result.err
    assert "run-1/approve is accepted" in result.out
    assert "left alone: run-1/save: 80.0% sure, which is less than 90%" in result.out
    assert ACCEPTED.strip() in plan.read_text() and "Store" not in plan.read_text()
    plan.write_text(plan.read_text().replace("name: Save,", "name: Keep,"))
    other = cli("heals", "accept", "run-1/save", "--yes")
    assert (other.code, "another target now" in other.err) == (2, True)


HEAD = "<!doctype html><html lang=en><title>Desk</title><h1>Desk</h1><p id=said>nothing</p>"
DOES = "onclick=\"said.textContent = 'done'\""


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as one:
        page = f"{HEAD}<div><button id=v2 name=ok {DOES}>Approve invoice</button><button>Save report</button></div>"
        one.pages["/desk"] = lambda _site, _asked: Answer(page)
        yield one


@needs_browser
def test_after_a_heal_was_accepted_the_changed_page_needs_none(cli: Cli, site: Site) -> None:
    cli.obey(page_quiet_s=0.1, page_target_s=1, page_heal_s=0.4)
    path = Path(
        cli.plan(
            f"""
            version: 1
            name: desk
            heal: apply
            steps:
              - browser: {{goto: "{site.url}/desk"}}
              - id: approve
                browser:
                  click:
                    role: button   # no link
                    name: 'Approve'
                    recorded: {{tag: button, role: button, name: Approve, text: Approve, id: v1, name_attribute: ok}}
                expect: [{{text: done}}]  # the end
            """
        )
    )
    healed = cli("run", str(path), "--json")
    assert (healed.code, len(healed.payloads("target.healed"))) == (0, 1), healed.err

    tools = cli.folder / "tools"
    tools.mkdir()
    (tools / "xdg-open").symlink_to("/bin/true")
    shown = cli(
        "heals", "show", "last", "--open", env={"PATH": f"{tools}:/usr/bin:/bin", "TMPDIR": str(tools)}
    )
    assert shown.code == 0, shown.err
    assert "'v1' → 'v2'" in shown.out and "evidence  recoup show" in shown.out
    (picture,) = tools.glob("recoup-heal-*")
    assert picture.read_bytes()[:4] in (b"\x89PNG", b"\xff\xd8\xff\xe0", b"RIFF")

    before = path.read_text().splitlines()
    accepted = cli("heals", "accept", "last", "--yes")
    assert accepted.code == 0, accepted.err
    after = path.read_text().splitlines()
    changed = [number for number, line in enumerate(before) if line != after[number]]
    assert ([before[number].split(":")[0].strip() for number in changed], len(after)) == (
        ["name", "recorded"],
        len(before),
    )
    assert after[changed[0]].strip() == "name: 'Approve invoice'", "in the quotes that it had"
    third = cli("run", str(path), "--json")
    assert (third.code, third.payloads("target.healed")) == (0, []), third.err


def answered(cli: Cli, answer: bytes, *words: str) -> tuple[int, str]:
    """The command on a terminal, where somebody answers."""
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    done = subprocess.run(
        cli.argv(*words),
        stdin=theirs,
        capture_output=True,
        text=True,
        cwd=cli.folder,
        env=cli.environ(),
        timeout=60,
    )
    os.close(ours)
    os.close(theirs)
    return done.returncode, done.stdout + done.stderr


def test_on_a_terminal_somebody_is_asked_after_the_change_was_shown(cli: Cli, plan: Path) -> None:
    before = plan.read_text()
    code, said = answered(cli, b"n\n", "heals", "accept", "run-1/approve")
    assert (code, plan.read_text(), decided(cli, TargetLearned)) == (2, before, [])
    assert said.index('+        name: "Approve invoice"') < said.index("Accept run-1/approve and change")
    code, said = answered(cli, b"y\n", "heals", "accept", "run-1/approve")
    assert (code, plan.read_text() != before, len(decided(cli, TargetLearned))) == (0, True, 1), said
