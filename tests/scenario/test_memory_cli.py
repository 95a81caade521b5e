"""`recoup memory`: what was learned, its versions, and going back, on the command line."""

from __future__ import annotations

import asyncio
import json

from tests.scenario.conftest import Cli
from tests.unit.test_memory import healed, snapshot

from recoup.clock import SystemClock
from recoup.kernel.memory import learned
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.ids import targets_stream, workflow_stream
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.redaction.redactor import SecretRedactor

WORKFLOW = "invoice-sync"


def teach(cli: Cli) -> None:
    """As runs would have done it."""

    async def work() -> None:
        redactor, ledger = SecretRedactor(), SqliteLedger(cli.home / "ledger.db")
        drafts = [
            Draft(one.TYPE, redactor.seal(one), one)
            for one in (healed(), snapshot("v000001"), learned(healed()), healed())
        ]
        streams = (
            StreamAppend(targets_stream(WORKFLOW), tuple(drafts)),
            StreamAppend(workflow_stream(WORKFLOW), (drafts[1],)),
        )
        await ledger.append(Append(at=SystemClock().now(), streams=streams))
        await ledger.close()

    asyncio.run(work())


def test_what_was_learned_is_shown_and_taken_back(cli: Cli) -> None:
    nothing = cli("memory", "versions", WORKFLOW)
    assert nothing.code == 0 and "has learned nothing yet" in nothing.err
    teach(cli)
    assert "approve: button 'Approve invoice', right 2 of 2 times" in cli("memory", "show", WORKFLOW).out
    (version,) = json.loads(cli("memory", "versions", WORKFLOW, "--json").out)
    assert version["version_id"] == "v000001" and version["workflow_id"] == WORKFLOW
    assert {"created_at", "success_rate_before", "success_rate_after", "components_versioned"} <= set(version)
    assert cli("memory", "diff", WORKFLOW, "v000001").out.startswith("+ approve: button")
    done = cli("memory", "rollback", WORKFLOW, "--reason", "the wrong button")
    assert done.code == 0 and "after v000001 is taken back" in done.out
    assert "has learned nothing yet" in cli("memory", "show", WORKFLOW).err
    again = cli("memory", "rollback", WORKFLOW, "--reason", "once more")
    assert again.code == 2 and "nothing to go back to" in again.err
