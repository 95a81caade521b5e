"""One redactor for each run, above the one of the process: what a run registers ends with it."""

from __future__ import annotations

import gc
import itertools
import random
import string

import pytest

from recoup.fleet.redactors import RunRedactors
from recoup.redaction.layers import LAYER_FORMS_MAX
from recoup.redaction.redactor import SecretRedactor, SecretTooShort, SecretUnhidable

_numbers = itertools.count(1)


def new_secret(characters: int = 12) -> str:
    return "".join(
        random.Random(next(_numbers)).choices(string.ascii_lowercase + string.digits, k=characters)
    )


def test_secrets_of_many_runs_stay_masked_and_are_forgotten_with_their_runs() -> None:
    shared = SecretRedactor()
    shared.register("PROCESS", of_process := new_secret())
    redactors, forms, secrets = RunRedactors(shared), set[int](), list[str]()
    for run in range(200):
        of_run = redactors.of(f"run-{run}")
        secrets = [new_secret() for _ in range(5)]
        for number, secret in enumerate(secrets):
            of_run.register(f"output-{number}", secret)
        shown = of_run.redact(" ".join([of_process, *secrets])).text
        assert shown == " ".join(["[redacted]"] * 6)
        forms.add(of_run.layered_forms)
        del of_run
        gc.collect(0)
        assert len(redactors) == 0
    assert max(forms) < 1.2 * min(forms), "the last run paid as much as the first"
    assert shared.redact(secrets[0]).text == secrets[0]


def test_runs_at_the_same_time_hide_their_own_secrets_and_those_of_the_process() -> None:
    redactors = RunRedactors(SecretRedactor())
    one, other = redactors.of("one"), redactors.of("other")
    mine, yours, ours = new_secret(), new_secret(), new_secret()
    one.register("MINE", mine)
    other.register("YOURS", yours)
    redactors.shared.register("OURS", ours)
    said = f"{mine} {yours} {ours}"
    assert one.redact(said).text == f"[redacted] {yours} [redacted]"
    assert other.redact(said).text == f"{mine} [redacted] [redacted]"
    assert one.found_in(said.encode()) == ("MINE", "OURS")
    assert redactors.shared.redact(said).text == f"{mine} {yours} [redacted]"


def test_all_who_hold_the_redactor_of_a_run_hold_the_same() -> None:
    redactors = RunRedactors(SecretRedactor())
    first = redactors.of("run")
    secret = new_secret()
    first.register("TOKEN", secret)
    assert redactors.of("run") is first is redactors.held("run")
    with pytest.raises(AssertionError, match="nobody holds its redactor"):
        redactors.held("another")


@pytest.mark.parametrize("chunk", [1, 7, 1_000])
def test_a_secret_of_the_process_inside_one_of_a_run_gives_nothing_of_it_away(chunk: int) -> None:
    shared = SecretRedactor()
    shared.register("PART", "middle-part")
    of_run = SecretRedactor(above=shared)
    of_run.register("WHOLE", "before-middle-part-after")
    stream = of_run.stream()
    said = b"x before-middle-part-after y middle-part z"
    pieces = [said[at : at + chunk] for at in range(0, len(said), chunk)]
    shown = b"".join([*(stream.feed(piece).data for piece in pieces), stream.flush().data])
    assert shown == b"x [redacted] y [redacted] z"
    assert of_run.seal({"a": "before-middle-part-after"}).data == b'{"a":"[redacted]"}'


def test_a_secret_is_honoured_by_streams_that_are_open_above_and_below() -> None:
    shared = SecretRedactor()
    of_run = SecretRedactor(above=shared)
    stream = of_run.stream()
    assert stream.feed(b"nothing yet ").data == b"nothing yet "
    shared.register("OURS", "ours-secret-1")
    of_run.register("MINE", "mine-secret-2")
    shown = stream.feed(b"ours-secret-1 mine-secret-2 ~").data + stream.flush().data
    assert shown == b"[redacted] [redacted] ~"


def test_a_registration_builds_an_automaton_of_a_few_hundred_forms_however_many_there_are() -> None:
    """Counted: all forms in one automaton for each new secret made a registration cost seconds."""
    redactor = SecretRedactor()
    worst = 0
    for number in range(60):
        before = redactor.layered_forms
        redactor.register(f"n{number}", new_secret(40))
        redactor.redact("a word")
        worst = max(worst, redactor.layered_forms - before)
    assert worst <= LAYER_FORMS_MAX
    assert redactor.layered_forms > LAYER_FORMS_MAX


def test_layers_become_one_when_much_is_searched_and_find_the_same() -> None:
    redactor, secrets = SecretRedactor(), [new_secret(24) for _ in range(20)]
    for number, secret in enumerate(secrets):
        redactor.register(f"n{number}", secret)
        redactor.redact("a word")
    several = len(redactor._layers.all())
    redactor.redact("nothing to hide here\n" * 50_000)
    redactor.redact("nothing")
    assert several > 1 == len(redactor._layers.all())
    assert redactor.redact(" ".join(secrets)).text == " ".join(["[redacted]"] * 20)
    assert len(redactor.found_in(" ".join(secrets).encode())) == 20


def test_the_same_value_again_costs_nothing() -> None:
    redactor = SecretRedactor()
    redactor.register("A", "a-secret-value")
    redactor.redact("a word")
    cost = redactor.layered_forms
    for _ in range(100):
        redactor.register("A", "a-secret-value")
        SecretRedactor(above=redactor).register("A", "a-secret-value")
    redactor.redact("a word")
    assert redactor.layered_forms == cost


def test_only_a_short_value_may_be_left_alone() -> None:
    redactor = SecretRedactor()
    redactor.register_unless_short("A", "abc")
    with pytest.raises(SecretTooShort):
        redactor.register("A", "abc")
    with pytest.raises(SecretUnhidable, match="more than"):
        redactor.register_unless_short("A", "ab" * 40_000)
