"""`recoup prune`, as people call it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.scenario.conftest import Cli

PLAN = """
    version: 1
    name: small
    steps:
      - {id: a, run: "echo made > made", expect: [{file: made}]}
"""


def test_a_run_is_forgotten_and_its_audit_stays(cli: Cli) -> None:
    run_id = cli("run", cli.plan(PLAN), "--json").document["runId"]
    assert cli("prune", "--older-than", "30d", "--json").json["runs"] == 0
    would = cli("prune", "--older-than", "1ms", "--force", "--dry-run", "--json").json
    assert (would["runIds"], would["runs"], would["dryRun"]) == ([run_id], 1, True)
    assert cli.run_dir(run_id).exists()
    done = cli("prune", "--older-than", "1ms", "--force")
    assert done.code == 0
    assert done.out.startswith("1 run with ")
    assert "removed 1 folder" in done.out
    assert not cli.run_dir(run_id).exists()
    assert "no run begins" in cli("show", run_id).err
    report = cli("audit", "verify", "--json").json
    assert (report["intact"], report["ledger"]["pruned"]) == (True, would["events"])
    assert cli("audit", "export", "--json").json["events"] == 1


def test_nothing_is_forgotten_when_the_audit_cannot_be_written(cli: Cli) -> None:
    run_id = cli("run", cli.plan(PLAN), "--json").document["runId"]
    shutil.rmtree(cli.home / "audit")
    (cli.home / "audit").write_text("in the way")
    refused = cli("prune", "--older-than", "1ms", "--force")
    assert refused.code != 0
    assert "audit" in refused.err
    assert cli.run_dir(run_id).exists()
    assert cli("show", run_id).code == 0


def test_what_ended_a_moment_ago_is_not_forgotten_by_a_slip(cli: Cli) -> None:
    for age, word in (("10m", "--force"), ("yesterday", "duration")):
        refused = cli("prune", "--older-than", age)
        assert refused.code == 2
        assert word in refused.err
