"""A weak RECOUP_KEY begins nothing, and finishes what was begun with it."""

from __future__ import annotations

from pathlib import Path

from tests.keys import KEY
from tests.scenario.conftest import Cli

from recoup.evidence.vault import Vault, vault_key

_PLAN = """
    version: 1
    name: pin
    inputs: {pin: {secret: true}}
    steps:
      - {id: use, run: 'test -e ready && test "$PIN" = 4711-4711', env: {PIN: "${{ inputs.pin }}"}}
    """


def test_a_weak_key_begins_no_run(cli: Cli) -> None:
    plan = cli.plan(_PLAN)
    cli.env["RECOUP_KEY"] = "x"
    for words in (("run", plan, "--input", "pin=4711-4711"), ("submit", plan, "--input", "pin=4711-4711")):
        refused = cli(*words)
        assert refused.code == 2
        assert "RECOUP_KEY has fewer than 20 characters" in refused.err
        assert "secrets.token_urlsafe(32)" in refused.err
    doctor = cli("doctor")
    assert doctor.code == 1 and "RECOUP_KEY has fewer than 20 characters" in doctor.out


def test_a_run_that_began_with_a_weak_key_can_be_resumed_with_it(cli: Cli) -> None:
    plan = cli.plan(_PLAN)
    cli.env["RECOUP_KEY"] = KEY
    failed = cli("run", plan, "--input", "pin=4711-4711", "--json").document
    _store_anew(cli.run_dir(failed["runId"]), cli.home, "weak")
    cli.env["RECOUP_KEY"] = "weak"
    (cli.folder / "ready").touch()
    resumed = cli("resume", failed["runId"])
    assert resumed.code == 0, resumed.err


def _store_anew(run: Path, home: Path, key: str) -> None:
    """As an earlier version kept it, which took any key."""
    folder = run / "private" / "secrets"
    weak, strong = (Vault(folder, vault_key(home, one), owner=run.name) for one in (key, KEY))
    weak.put("inputs.pin", strong.get("inputs.pin"))
