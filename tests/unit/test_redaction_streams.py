"""Secrets in a stream that arrives in pieces."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Iterable

import pytest

from recoup.model.redacted import Redacted
from recoup.ports import RedactionStream, Redactor
from recoup.redaction.redactor import TORN_FORMS_MAX, ChainedStream, SecretRedactor, Stage


def redactor(*values: str) -> SecretRedactor:
    made = SecretRedactor()
    for number, value in enumerate(values):
        made.register(f"SECRET_{number}", value)
    return made


def through(stream: RedactionStream, pieces: Iterable[bytes]) -> list[bytes]:
    return [*(stream.feed(piece).data for piece in pieces), stream.flush().data]


def test_it_is_the_redactor_of_the_ports() -> None:
    port: Redactor = redactor()
    stream: RedactionStream = port.stream()
    assert isinstance(stream.feed(b"text"), Redacted)


@pytest.mark.parametrize(
    ("secret", "pieces"),
    [
        ("ababc", [b"abab", b"abc"]),
        ("token-token-x9", [b"token-", b"token-", b"token-x9"]),
        ("aabaabaac", [b"aabaab", b"aabaab", b"aac"]),
        ("ab" * 12 + "c", [b"ab" * 13, b"c"]),
    ],
)
def test_a_secret_that_repeats_itself_is_found_after_a_false_start(secret: str, pieces: list[bytes]) -> None:
    out = b"".join(through(redactor(secret).stream(), pieces))
    assert secret.encode() not in out
    assert out.endswith(b"[redacted]")


def test_every_place_to_cut_a_secret_gives_the_same_text() -> None:
    text = b"user=me password=open-sesame-99 and more"
    for cut in range(len(text) + 1):
        out = b"".join(through(redactor("open-sesame-99").stream(), [text[:cut], text[cut:]]))
        assert out == b"user=me password=[redacted] and more"


@pytest.mark.parametrize(
    "dump",
    [
        lambda raw: raw.hex(),
        lambda raw: raw.hex().upper(),
        lambda raw: raw.hex(" "),
        lambda raw: raw.hex(":").upper(),
        lambda raw: "\\x" + raw.hex(" ").replace(" ", "\\x"),
        lambda raw: f"{raw[:5].hex(' ')}\n {raw[5:].hex(' ')}",
        lambda raw: f"{raw[:13].hex()}\n{raw[13:].hex()}",
    ],
    ids=["plain", "capital", "spaces", "colons", "escapes", "od", "xxd"],
)
def test_every_place_to_cut_the_hex_of_a_secret_gives_the_same_text(dump: Callable[[bytes], str]) -> None:
    text = b"user=me password=" + dump(b"open-sesame-99zj").encode() + b" and more"
    hidden = redactor("open-sesame-99zj")
    cuttings = [[text[:cut], text[cut:]] for cut in range(len(text) + 1)]
    for pieces in (*cuttings, [text[at : at + 1] for at in range(len(text))]):
        assert b"".join(through(hidden.stream(), pieces)) == b"user=me password=[redacted] and more"


def test_so_many_secrets_that_torn_hex_is_left_are_still_hidden_in_hex_and_counted() -> None:
    values = [f"registered+value/{n * 7919:08x}" for n in range(1_500)]
    hidden = redactor(*values)
    for value in (values[0], values[-1]):
        for text in (value.encode().hex(), value.encode().hex(" ").upper()):
            assert hidden.redact(text).data == b"[redacted]"
    assert len(hidden._names_by_form) < TORN_FORMS_MAX + 90 * len(values)


def test_secrets_that_overlap_are_both_hidden_behind_one_mask() -> None:
    hidden = redactor("left-middle", "middle-right")
    assert hidden.redact("<left-middle-right>").data == b"<[redacted]>"
    assert through(hidden.stream(), [b"<left-mid", b"dle", b"-right>"])[:2] == [b"<", b"[redacted]"]


def test_a_secret_inside_what_is_masked_already_does_not_lift_the_mask() -> None:
    stream = redactor("xxabcdefgh", "abcd", "abcdefghzzz").stream()
    assert through(stream, [b"xxabcdefgh", b"!"]) == [b"[redacted]", b"!", b""]


def test_neighbours_share_a_mask_even_when_they_come_one_by_one() -> None:
    assert (
        b"".join(through(redactor("open-sesame").stream(), [b"open-sesame", b"open-sesame!"]))
        == b"[redacted]!"
    )


def test_endless_repetition_of_a_secret_holds_back_no_more_than_one() -> None:
    stream = redactor("abcabcab").stream()
    assert stream.feed(b"abc" * 10_000).data == b"[redacted]"
    assert stream.feed(b"abc" * 10_000).data == b""
    assert stream.feed(b"ab and on").data == b" and on"


def test_nothing_is_held_back_unless_a_secret_may_be_coming() -> None:
    stream = redactor("open-sesame-99", "x" * 5_000 + "y").stream()
    assert stream.feed(b"a line\n").data == b"a line\n"
    assert stream.feed(b"progress 10 % ").data == b"progress 10 % "
    assert stream.feed(b"the op").data == b"the "
    assert stream.feed(b"era").data == b"opera"


def test_the_lines_of_a_live_log_are_not_held_back_by_a_secret_of_many_lines() -> None:
    stream = redactor("".join(f"{n:063}\n" for n in range(60))).stream()
    assert stream.feed(b"a line\n").data == b"a line\n"


def test_a_secret_cut_off_at_the_end_is_hidden_once_half_of_it_shows() -> None:
    assert redactor("open-sesame-99").redact("pw open-ses").data == b"pw [redacted]"
    assert redactor("open-sesame-99").redact("pw open-").data == b"pw open-"
    assert through(redactor("x" * 40 + "y").stream(), [b"pw ", b"x" * 30]) == [b"pw ", b"", b"[redacted]"]


def test_the_cut_off_end_of_a_secret_inside_the_beginning_of_a_longer_one_is_hidden() -> None:
    hidden = redactor("0123456789-" + "z" * 60, "6789-abcdefg")
    assert hidden.redact("at 0123456789-").data == b"at 0123456789-"
    assert (
        redactor("0123456789-ab" + "z" * 60, "6789-abcdefg").redact("0123456789-ab").data
        == b"012345[redacted]"
    )


def test_a_whole_secret_inside_one_that_was_cut_off_is_hidden_with_it() -> None:
    assert redactor("0123456789-abcdefgh", "4567").redact("at 0123456789-ab").data == b"at [redacted]"


def test_a_flushed_stream_begins_anew() -> None:
    stream = redactor("open-sesame-99").stream()
    assert through(stream, [b"open-"]) == [b"", b"open-"]
    assert through(stream, [b"sesame-99!"]) == [b"sesame-99!", b""]
    assert b"".join(through(stream, [b"open-sesame", b"-99"])) == b"[redacted]"


def test_an_open_stream_honours_a_secret_registered_later() -> None:
    hidden = redactor()
    stream = hidden.stream()
    assert stream.feed(b"open-sesame ").data == b"open-sesame "
    hidden.register("LATE", "open-sesame")
    assert stream.feed(b"open-sesame open").data == b"[redacted] "
    hidden.register("LATER", "another-word")
    assert b"".join(through(stream, [b"-sesame another-word"])) == b"[redacted] [redacted]"


def test_an_older_value_of_a_name_stays_hidden() -> None:
    hidden = redactor()
    hidden.register("ROTATED", "the-old-value")
    hidden.register("ROTATED", "the-new-value")
    assert hidden.redact("the-old-value the-new-value").data == b"[redacted] [redacted]"
    assert hidden.found_in(b"the-old-value") == ("ROTATED",)


def test_bytes_that_are_no_text_pass_unchanged() -> None:
    noise = bytes(range(256)) * 50
    assert b"".join(through(redactor("open-sesame").stream(), [noise[:777], noise[777:]])) == noise


def test_the_names_of_what_was_found_are_told_in_any_form() -> None:
    hidden = redactor("open-sesame", "another-word")
    hidden.register("TWIN", "another-word")
    assert hidden.found_in(b"nothing here") == ()
    assert hidden.found_in(b64encode(b"open-sesame")) == ("SECRET_0",)
    assert hidden.found_in(b"open-sesame another-word") == ("SECRET_0", "SECRET_1", "TWIN")
    assert redactor().found_in(b"anything") == ()


def test_a_second_stage_sees_what_the_first_passed_on_and_is_flushed_after_it() -> None:
    class Shouting:
        def __init__(self) -> None:
            self.held = b""

        def feed(self, chunk: bytes) -> bytes:
            passed, self.held = self.held, chunk.upper()
            return passed

        def flush(self) -> bytes:
            return self.held

    stages: list[Stage] = [Shouting(), Shouting()]
    assert b"".join(through(ChainedStream(stages), [b"one ", b"two ", b"three"])) == b"ONE TWO THREE"


def test_clean_output_goes_through_fast_with_fifty_secrets() -> None:
    stream = redactor(*(f"registered+value/{n * 7919:08x}" for n in range(50))).stream()
    block = (b"INFO worker 17 step build: compiled 214 files in 3.2 s, cache hit 91 %\n" * 1_000)[:65_536]
    stream.feed(block)
    took_s = min(_seconds_for(stream, block) for _ in range(20))
    # A tenth of what it does on the slowest machine it was tried on: this is to catch a loop over bytes.
    assert len(block) / took_s > 30e6


def _seconds_for(stream: RedactionStream, block: bytes) -> float:
    began = time.perf_counter()
    stream.feed(block)
    return time.perf_counter() - began
