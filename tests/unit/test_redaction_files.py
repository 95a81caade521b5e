"""Pictures and packed files on their way to storage."""

from __future__ import annotations

import io
import zipfile

import pytest

from recoup.redaction import archives
from recoup.redaction.redactor import SecretRedactor

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
SECRET = "-".join(("correct", "horse", "battery", "staple"))
LIMIT = 1 << 20


def packed(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return out.getvalue()


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as given:
        return {name: given.read(name) for name in given.namelist()}


@pytest.fixture
def redactor() -> SecretRedactor:
    made = SecretRedactor()
    made.register("PASSPHRASE", SECRET)
    return made


def test_a_picture_passes_as_it_is_and_nothing_else_passes_as_one(redactor: SecretRedactor) -> None:
    for image in (PNG, b"\xff\xd8\xff\xe0" + PNG):
        assert redactor.picture(image).data == image
    for other in (b"", b"GIF89a", SECRET.encode(), PNG[1:]):
        with pytest.raises(ValueError, match="neither a PNG nor a JPEG"):
            redactor.picture(other)


def test_what_is_packed_is_searched_and_what_cannot_be_is_left_out(redactor: SecretRedactor) -> None:
    given = {
        "trace.json": f'{{"typed": "{SECRET}"}}'.encode(),
        f"{SECRET}.txt": b"its name tells",
        "shot.png": PNG,
        f"of {SECRET}.png": PNG,
        "blob": b"\x00\x01" + SECRET.encode(),
        "latin": SECRET.encode() + b"\xff",
    }
    found = unpacked(redactor.archive(packed(given), LIMIT).data)
    assert SECRET not in str(found)
    assert found["shot.png"] == PNG
    assert found["trace.json"].startswith(b'{"typed": "')
    assert sorted(found.values()).count(b"its name tells") == 1
    assert not {"blob", "latin"} & found.keys()


def test_what_is_no_archive_or_holds_too_much_is_refused(
    redactor: SecretRedactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = packed({"a": b"x" * 10_000, "b": b"y"})
    assert unpacked(redactor.archive(good, 10_001).data)["b"] == b"y"
    with pytest.raises(ValueError, match="too much"):
        redactor.archive(good, 10_000)
    damaged = good[:31] + b"\xff" * 8 + good[39:]
    for bad in (b"", b"PK\x03\x04", good[:-30], good[: len(good) // 2], damaged):
        with pytest.raises(ValueError, match="not a zip file"):
            redactor.archive(bad, LIMIT)
    monkeypatch.setattr(archives, "MEMBERS_MAX", 1)
    with pytest.raises(ValueError, match="too much"):
        redactor.archive(good, LIMIT)
