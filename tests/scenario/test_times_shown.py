"""Times are shown in the zone of the machine, which is named; JSON keeps UTC."""

from __future__ import annotations

import re

from tests.scenario.conftest import Cli

PLAN = "version: 1\nname: a\nsteps: [{id: a, run: 'true'}]\n"
NEW_YORK = {"TZ": "EST5EDT,M3.2.0,M11.1.0"}


def test_people_read_local_times_with_their_zone(cli: Cli) -> None:
    done = cli("run", cli.plan(PLAN), env=NEW_YORK)
    assert re.search(r"^\[\d\d:\d\d:\d\d E[SD]T\] ", done.err, re.M), done.err
    for words in (["runs"], ["events", "last"]):
        said = cli(*words, env=NEW_YORK).out
        assert re.search(r" \d\d:\d\d(:\d\d)? E[SD]T ", said) and "Z " not in said, said


def test_utc_is_marked_as_such(cli: Cli) -> None:
    cli("run", cli.plan(PLAN))
    for words, env in ((["runs"], {"TZ": "UTC"}), (["--utc", "runs"], NEW_YORK)):
        assert re.search(r" \d\d:\d\d UTC ", cli(*words, env=env).out)


def test_json_keeps_iso_times_in_utc(cli: Cli) -> None:
    cli("run", cli.plan(PLAN))
    assert cli("runs", "--json", env=NEW_YORK).json[0]["submittedAt"].endswith("Z")
