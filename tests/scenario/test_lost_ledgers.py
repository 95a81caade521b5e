"""Acknowledged runs are there, whatever is done to the ledger's files; or every command says that they are not."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.gateway_house import Gateway, gateway
from tests.scenario.conftest import Cli, Result, kill, wait_for

TINY = "version: 1\nname: tiny\nsteps:\n  - id: a\n    run: 'true'\n"
DATABASES = ("ledger.db", "ledger.db-wal", "ledger.db-shm", "gateway.db", "gateway.db-shm", "queue.db")


def run_ids(cli: Cli) -> set[str]:
    result = cli("runs", "--json")
    assert result.code == 0, result.err
    return {run["runId"] for run in result.json}


def snapshot(home: Path) -> dict[str, bytes]:
    """Every file but SQLite's index of the log, which it makes again at any time."""
    files = (path for path in home.iterdir() if path.is_file() and not path.name.endswith("-shm"))
    return {path.name: path.read_bytes() for path in files}


# Files that are named from outside


@pytest.mark.parametrize("link", ["name", "symbolic", "hard"])
def test_a_plan_path_that_names_a_database_is_refused_and_harms_nothing(cli: Cli, link: str) -> None:
    with gateway(cli.home, "--workers", "0") as house:
        acknowledged = {house.submit(TINY)}
        for name in DATABASES:
            answer = submit_path(house, linked(cli, link, cli.home / name))
            assert answer[0] == 422, answer
            assert "a database that Recoup has open" in answer[1]
        assert run_ids(cli) == acknowledged  # this command is not the last to close the ledger
        acknowledged |= {house.submit(TINY) for _ in range(3)}
        house.process.send_signal(signal.SIGKILL)
        house.process.wait()
    assert run_ids(cli) == acknowledged
    assert cli("audit", "verify").code == 0
    assert cli("doctor", "--json").json["ok"]


def linked(cli: Cli, kind: str, file: Path) -> Path:
    link = cli.folder / f"{file.name}.yaml"
    if kind == "symbolic":
        link.symlink_to(file)
    elif kind == "hard":
        os.link(file, link)
    return file if kind == "name" else link


def submit_path(house: Gateway, path: Path) -> tuple[int, str]:
    with house.client() as client:
        answer = client.post("/api/runs", json={"planPath": str(path)})
    return answer.status_code, answer.text


CHECKS = {
    "check": ("ln {how} {database} seen", "expect: [{file: seen, contains: SQLite}]"),
    "json": ("ln {how} {database} seen", "expect: [{json: seen, path: a}]"),
    "output": ("ln {how} {database} seen", "outputs: {a: {json: seen, path: a}}"),
    "regex": ("ln {how} {database} seen", "outputs: {a: {regex: SQL, file: seen}}"),
    "written": ("ln {how} {database} $RECOUP_OUTPUT", ""),
}


@pytest.mark.parametrize("how", ["-sf", "-f"], ids=["symbolic", "hard"])
@pytest.mark.parametrize("name", CHECKS)
def test_a_step_that_leaves_a_link_to_the_ledger_fails_its_check_and_loses_nothing(
    cli: Cli, name: str, how: str
) -> None:
    """Another command opens and closes the ledger in between: it must not take itself for the last one."""
    leave, read = CHECKS[name]
    line = leave.format(how=how, database=cli.home / "ledger.db")
    plan = cli.plan(f"""\
        version: 1
        name: linked
        steps:
          - id: first
            run: |
              {line}
            max_attempts: 1
            {read}
            rescue:
              - run: |
                  rm -f seen
                  touch waits
                  until test -e go; do sleep 0.05; done
          - id: second
            run: 'true'
        """)
    driver = cli.start("run", plan, "--json")
    wait_for(cli.folder / "waits")
    (run_id,) = run_ids(cli)
    (cli.folder / "go").touch()
    out, err = driver.communicate(60)
    events = [json.loads(line) for line in out.splitlines()][:-1]
    failure = next(event for event in events if event["type"] == "task.step.attempt.failed")
    why = "a database that Recoup has open" if how == "-f" else "leaves the folder of the step"
    assert why in json.dumps(failure), err
    stored = [json.loads(line) for line in cli("events", run_id, "--json").out.splitlines()]
    assert [event["seq"] for event in stored] == [event["seq"] for event in events]


def test_a_workspace_with_a_link_to_the_ledger_is_stored_without_it(cli: Cli, repo: Path) -> None:
    plan = cli.plan(f"""\
        version: 1
        name: stored
        workspace: {{git: {repo}}}
        steps:
          - id: first
            run: ln {cli.home}/ledger.db copy.db && ln {cli.home}/ledger.db .gitignore && echo x > kept
          - id: second
            run: recoup=1; touch {cli.folder}/waits; until test -e {cli.folder}/go; do sleep 0.05; done
        """)
    driver = cli.start("run", plan, "--json")
    wait_for(cli.folder / "waits")
    (run_id,) = run_ids(cli)
    (cli.folder / "go").touch()
    out, err = driver.communicate(60)
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines[-1]["status"] == "succeeded", err
    assert "a database that Recoup has open" in json.dumps(
        [e for e in lines if e.get("type") == "checkpoint.incomplete"]
    )
    stored = [json.loads(line)["seq"] for line in cli("events", run_id, "--json").out.splitlines()]
    assert stored == [event["seq"] for event in lines[:-1]]


def test_a_folder_that_holds_the_ledger_is_copied_without_it(cli: Cli) -> None:
    source = cli.folder / "source"
    source.mkdir()
    (source / "file").write_text("x")
    cli.env["RECOUP_DATABASE"] = str(source / "ledger.db")
    plan = cli.plan(f"""\
        version: 1
        name: copied
        workspace: {{folder: {source}}}
        steps:
          - id: first
            run: cat file; ls; test ! -e ledger.db; touch {cli.folder}/waits; until test -e {cli.folder}/go; do sleep 0.05; done
        """)
    driver = cli.start("run", plan, "--json")
    wait_for(cli.folder / "waits")
    (run_id,) = run_ids(cli)
    (cli.folder / "go").touch()
    out, err = driver.communicate(60)
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines[-1]["status"] == "succeeded", err
    stored = [json.loads(line)["seq"] for line in cli("events", run_id, "--json").out.splitlines()]
    assert stored == [event["seq"] for event in lines[:-1]]


def test_a_folder_that_holds_the_home_is_refused(cli: Cli) -> None:
    cli.home = cli.folder / "state"
    plan = cli.plan("version: 1\nname: self\nworkspace: {folder: .}\nsteps:\n  - run: 'true'\n")
    result = cli("run", plan)
    assert result.code == 3
    assert "RECOUP_HOME" in result.err
    assert run_ids(cli) == set()


def test_a_policy_that_is_the_ledger_is_refused(cli: Cli) -> None:
    plan = cli.plan(TINY)
    assert cli("run", plan).code == 0
    result = cli("run", plan, env={"RECOUP_POLICY": str(cli.home / "ledger.db")})
    assert result.code == 3
    assert len(run_ids(cli)) == 1


# A log that is gone


def test_a_gateway_whose_log_is_gone_acknowledges_nothing_more(cli: Cli) -> None:
    with gateway(cli.home, "--workers", "0") as house:
        acknowledged = {house.submit(TINY)}
        assert run_ids(cli) == acknowledged
        log = cli.home / "ledger.db-wal"
        kept = log.read_bytes()
        log.unlink()
        with house.client() as client:
            for _ in range(2):
                answer = client.post("/api/runs", json={"plan": TINY})
                assert answer.status_code >= 500, answer.text
        house.process.send_signal(signal.SIGKILL)
        house.process.wait()
    assert_lost(cli, "has lost events")
    log.write_bytes(kept)
    (cli.home / "ledger.db-shm").unlink(missing_ok=True)
    assert run_ids(cli) == acknowledged


# A ledger that is gone when it is opened


def assert_lost(cli: Cli, words: str) -> None:
    """Every command says so, and changes nothing."""
    plan = cli.plan(TINY)
    before = snapshot(cli.home)
    commands = (
        ("runs",),
        ("show", "last"),
        ("submit", plan, "--dedup-key", "invoice-1"),
        ("run", plan),
        ("audit", "verify"),
    )
    for words_of_command in commands:
        result = cli(*words_of_command)
        assert result.code == 75, (words_of_command, result)
        assert words in result.err, (words_of_command, result.err)
    examined = cli("doctor")
    assert examined.code == 1
    assert "FAIL  database" in examined.out, examined.out
    assert words in examined.out
    after = snapshot(cli.home)
    assert {name: data for name, data in after.items() if name in before} == before
    assert set(after) - set(before) <= {"ledger.turn", "ledger.write"}


def empty(home: Path) -> None:
    (home / "ledger.db").write_bytes(b"")


def remove(home: Path) -> None:
    (home / "ledger.db").unlink()


@pytest.mark.parametrize("damage", [empty, remove])
@pytest.mark.parametrize("mark", [True, False], ids=["marked", "of an earlier version"])
def test_a_ledger_that_is_missing_or_empty_is_never_replaced(
    cli: Cli, damage: Callable[[Path], None], mark: bool
) -> None:
    plan = cli.plan(TINY)
    assert cli("submit", plan, "--dedup-key", "invoice-1").code == 0
    assert cli("run", plan).code == 0
    before, whole = run_ids(cli), (cli.home / "ledger.db").read_bytes()
    if not mark:
        (cli.home / "ledger.mark").unlink()
    damage(cli.home)
    assert_lost(cli, "but there was one")
    (cli.home / "ledger.db").write_bytes(whole)
    assert run_ids(cli) == before
    assert cli("doctor").code == 0


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:4096])


def write_text(path: Path) -> None:
    path.write_text("not a database\n" * 900)


def of_another_home(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path.with_name("other.db"))) as other:
        other.execute("CREATE TABLE t (a)")
        other.commit()
    path.write_bytes(path.with_name("other.db").read_bytes())
    path.with_name("other.db").unlink()


@pytest.mark.parametrize("damage", [truncate, write_text, of_another_home])
def test_a_wrong_ledger_beside_a_log_is_refused_and_keeps_the_log(
    cli: Cli, damage: Callable[[Path], None]
) -> None:
    """SQLite would copy the log into the wrong file and delete it."""
    acknowledged = killed_writer(cli)
    database, aside = cli.home / "ledger.db", cli.home / "kept"
    shutil.copy(database, aside)
    damage(database)
    for command in ("runs", "doctor"):
        assert cli(command).code != 0
    aside.replace(database)
    assert run_ids(cli) == acknowledged


@pytest.mark.parametrize("name", ["led.db", "led.db-wal", "led.db-shm", "led.mark", "led.turn", "led.write"])
def test_a_report_is_never_written_over_a_ledger_outside_of_the_home(cli: Cli, name: str) -> None:
    folder = cli.folder / "elsewhere"
    folder.mkdir()
    cli.env["RECOUP_DATABASE"] = str(folder / "led.db")
    assert cli("run", cli.plan(TINY)).code == 0
    before = run_ids(cli)
    refused = cli("report", "last", "--output", str(folder / name))
    assert (refused.code, "a file of the ledger" in refused.err) == (2, True), refused.err
    assert run_ids(cli) == before
    assert cli("report", "last", "--output", str(folder / "led.html")).code == 0


@pytest.mark.parametrize("name", ["ledger.db", "ledger.db-wal", "ledger.mark"])
def test_a_report_is_never_written_through_a_link_to_the_ledger(cli: Cli, name: str) -> None:
    assert cli("run", cli.plan(TINY)).code == 0
    before = run_ids(cli)
    link = cli.folder / "nightly.html"
    link.symlink_to(cli.home / name)
    result = cli("report", "last", "--output", str(link))
    assert result.code == 2
    assert "state folder" in result.err
    (run_id,) = before
    planted = cli.run_dir(run_id) / "artifacts" / "report.html"
    planted.unlink(missing_ok=True)
    planted.symlink_to(cli.home / name)
    assert cli("report", "last").code == 0
    assert not planted.is_symlink()
    assert run_ids(cli) == before


def killed_writer(cli: Cli) -> set[str]:
    """The ids of two runs, of which the newer one is in the log alone."""
    plan = cli.plan(
        "version: 1\nname: slow\nsteps:\n  - run: touch waits; until test -e go; do sleep 0.05; done\n"
    )
    assert cli("run", cli.plan(TINY, "tiny.yaml")).code == 0
    driver = cli.start("run", plan)
    wait_for(cli.folder / "waits")
    kill(driver)
    return ids_in(cli.home)


def ids_in(home: Path) -> set[str]:
    """As the ledger says, read from a copy: closing it would remove the log."""
    copy = home.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for name in ("ledger.db", "ledger.db-wal"):
        shutil.copy(home / name, copy / name)
    connection = sqlite3.connect(copy / "ledger.db")
    rows = connection.execute("SELECT run_id FROM runs").fetchall()
    connection.close()
    return {run_id for (run_id,) in rows}


def test_a_log_that_is_missing_is_noticed_and_can_be_put_back(cli: Cli) -> None:
    acknowledged = killed_writer(cli)
    assert len(acknowledged) == 2
    log = cli.home / "ledger.db-wal"
    kept = log.read_bytes()
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (cli.home / name).unlink()
    assert_lost(cli, "has lost events")
    log.write_bytes(kept)
    assert run_ids(cli) == acknowledged


def test_a_database_that_is_missing_beside_its_log_keeps_the_log(cli: Cli) -> None:
    acknowledged = killed_writer(cli)
    database = cli.home / "ledger.db"
    kept = database.read_bytes()
    database.unlink()
    assert_lost(cli, "but there was one")
    database.write_bytes(kept)
    assert run_ids(cli) == acknowledged


def test_an_older_copy_is_refused_until_it_is_accepted(cli: Cli) -> None:
    plan = cli.plan(TINY)
    assert cli("run", plan).code == 0
    older = (cli.home / "ledger.db").read_bytes()
    known = run_ids(cli)
    assert cli("run", plan).code == 0
    (cli.home / "ledger.db").write_bytes(older)
    assert_lost(cli, "has lost events")
    assert str(cli.home / "ledger.mark") in cli("runs").err
    (cli.home / "ledger.mark").unlink()
    assert run_ids(cli) == known
    assert cli("run", plan).code == 0
    assert cli("doctor").code == 0


def test_the_ledger_of_another_home_is_refused(cli: Cli) -> None:
    plan = cli.plan(TINY)
    assert cli("run", plan).code == 0
    other = cli.home.with_name("other")
    for _ in range(3):
        assert cli("--home", str(other), "run", plan).code == 0
    shutil.copy(other / "ledger.db", cli.home / "ledger.db")
    assert_lost(cli, "is another one than ledger.mark names")


def test_a_home_that_was_restored_whole_goes_on(cli: Cli) -> None:
    plan = cli.plan(TINY)
    assert cli("run", plan).code == 0
    known = run_ids(cli)
    shutil.copytree(cli.home, cli.home.with_name("backup"), symlinks=True)
    assert cli("run", plan).code == 0
    shutil.rmtree(cli.home)
    cli.home.with_name("backup").rename(cli.home)
    assert run_ids(cli) == known
    assert cli("run", plan).code == 0
    assert len(run_ids(cli)) == 2


def test_a_home_of_an_earlier_version_is_marked_silently(cli: Cli) -> None:
    plan = cli.plan(TINY)
    assert cli("run", plan).code == 0
    (cli.home / "ledger.mark").unlink()
    connection = sqlite3.connect(cli.home / "ledger.db")
    connection.execute("DROP TABLE ledger_identity")
    connection.commit()
    connection.close()
    result = cli("runs")
    assert (result.code, result.err) == (0, "")
    (number,) = sqlite3.connect(cli.home / "ledger.db").execute("SELECT max(id) FROM events").fetchone()
    assert int((cli.home / "ledger.mark").read_text().split()[-1]) == number


def test_after_pruning_the_ledger_still_reaches_its_mark(cli: Cli) -> None:
    plan = cli.plan(TINY)
    for _ in range(3):
        assert cli("run", plan).code == 0
    assert cli("prune", "--older-than", "1ms", "--force").code == 0
    connection = sqlite3.connect(cli.home / "ledger.db")
    connection.execute("VACUUM")
    connection.close()
    assert run_ids(cli) == set()
    assert cli("run", plan).code == 0
    assert len(run_ids(cli)) == 1


# Doctor


def doctor(cli: Cli) -> Result:
    return cli("doctor", timeout=60)


def scribble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    path.write_bytes(data)


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_text(path: Path) -> None:
    path.write_text("this is not a database\n" * 500)


@pytest.mark.parametrize("damage", [scribble, replace_by_pipe, replace_by_folder, replace_by_text])
def test_doctor_fails_for_a_ledger_that_cannot_be_used(cli: Cli, damage: Callable[[Path], None]) -> None:
    assert cli("run", cli.plan(TINY)).code == 0
    damage(cli.home / "ledger.db")
    result = doctor(cli)
    assert result.code == 1
    assert "FAIL  database" in result.out, result.out
    assert "missing, and needed: database" in result.out or "database" in result.out.splitlines()[-1]
    found = {one["name"]: one for one in cli("doctor", "--json").json["findings"]}["database"]
    assert not found["ok"]
    assert found["advice"]


def test_doctor_makes_and_changes_nothing(cli: Cli) -> None:
    cli.home.mkdir()
    result = doctor(cli)
    assert result.code == 0, result.out
    assert "made with the first run" in result.out
    assert not (cli.home / "ledger.db").exists()
    assert cli("run", cli.plan(TINY)).code == 0
    before = snapshot(cli.home)
    assert doctor(cli).code == 0
    assert snapshot(cli.home) == before


def test_doctor_reads_a_ledger_that_is_in_use(cli: Cli) -> None:
    with gateway(cli.home, "--workers", "0") as house:
        house.submit(TINY)
        assert doctor(cli).code == 0
        house.submit(TINY)
    assert len(run_ids(cli)) == 2


def test_doctor_fails_where_runs_were_driven_and_the_ledger_has_no_event(cli: Cli) -> None:
    assert cli("run", cli.plan(TINY)).code == 0
    cli.home.with_name("new").mkdir()
    assert cli("runs", env={"RECOUP_HOME": str(cli.home.with_name("new"))}).code == 0
    shutil.copy(cli.home.with_name("new") / "ledger.db", cli.home / "ledger.db")
    (cli.home / "ledger.mark").unlink()
    result = doctor(cli)
    assert result.code == 1
    assert "has no events, but runs/ has runs" in result.out


# A home that is away for a while

WAITING = """
    version: 1
    name: waiting
    steps:
      - {id: a, run: 'echo a >> journal; touch started; until test -e go; do sleep 0.02; done; test -e well'}
      - {id: b, run: 'echo b >> journal'}
"""


def test_a_home_that_was_moved_away_is_not_made_again_and_can_be_put_back(cli: Cli, tmp_path: Path) -> None:
    driver = cli.start("run", cli.plan(WAITING))
    wait_for(cli.folder / "started")
    away = cli.home.rename(tmp_path / "away")
    (cli.folder / "go").touch()
    _, err = driver.communicate(60)
    assert driver.returncode == 75, err
    assert "is gone" in err or "removed" in err
    assert not cli.home.exists()
    away.rename(cli.home)
    (cli.folder / "well").touch()
    assert cli("resume", "last").code == 0, "a second attempt, as after any lost driver"
    assert (cli.folder / "journal").read_text().split() == ["a", "a", "b"]


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_log_or_an_index_that_is_truncated_during_a_run_stops_it_before_the_next_step(
    cli: Cli, suffix: str
) -> None:
    driver = cli.start("run", cli.plan(WAITING))
    wait_for(cli.folder / "started")
    log = cli.home / "ledger.db-wal"
    whole = log.read_bytes()
    os.truncate(cli.home / f"ledger.db{suffix}", 0)
    (cli.folder / "go").touch()
    _, err = driver.communicate(60)
    assert driver.returncode == 75, err
    assert f"ledger.db{suffix} was truncated while in use" in err
    assert (cli.folder / "journal").read_text().split() == ["a"]
    if suffix == "-wal":
        assert cli("runs").code == 75, "it stays said until it is put back"
        log.write_bytes(whole)
    (cli.folder / "well").touch()
    assert cli("resume", "last").code == 0, "a second attempt, as after any lost driver"
    assert (cli.folder / "journal").read_text().split() == ["a", "a", "b"]


# Something else in the place of the ledger's own files


def put_pipe(path: Path) -> None:
    os.mkfifo(path)


def put_folder(path: Path) -> None:
    path.mkdir()


def put_link(path: Path) -> None:
    path.symlink_to(path.with_name("ledger.db"))


def put_dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


@pytest.mark.parametrize("put", [put_pipe, put_folder, put_link, put_dangling_link])
def test_what_is_no_plain_file_of_the_ledger_is_named_and_not_opened(
    cli: Cli, put: Callable[[Path], None]
) -> None:
    """A link is neither followed nor written through, and nobody waits for the other end of a pipe."""
    plan = cli.plan(TINY)
    assert cli("run", plan).code == 0
    before = run_ids(cli)
    for name in ("ledger.mark", "ledger.db-shm", "ledger.turn", "ledger.write"):
        path, kept = cli.home / name, cli.folder / f"{name}.kept"
        if path.exists():
            path.rename(kept)
        put(path)
        refused = cli("submit", plan)
        assert refused.code == 75, (name, refused.out)
        assert f"{path} is not a regular file" in refused.err
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        if kept.exists():
            kept.rename(path)
    assert not (cli.home / "nowhere").exists()
    assert run_ids(cli) == before


def test_a_lock_file_that_is_the_ledger_itself_is_not_opened(cli: Cli) -> None:
    """Closing it would drop the locks on the ledger."""
    plan = cli.plan(TINY)
    assert cli("run", plan).code == 0
    (cli.home / "ledger.turn").unlink()
    os.link(cli.home / "ledger.db", cli.home / "ledger.turn")
    refused = cli("submit", plan)
    assert refused.code == 75
    assert "a database that Recoup has open" in refused.err
