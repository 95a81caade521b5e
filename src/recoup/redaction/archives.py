"""A zip file whose texts are redacted. What is packed cannot be searched as it is."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable

MEMBERS_MAX = 5_000


def redacted_archive(
    data: bytes, redact: Callable[[bytes], bytes], pictures: tuple[bytes, ...], limit_bytes: int
) -> bytes:
    """Made anew from its texts and pictures; whatever else is in it is left out. Raises ValueError when it is no zip
    file, or holds more than `limit_bytes` when unpacked."""
    out = io.BytesIO()
    try:
        with (
            zipfile.ZipFile(io.BytesIO(data)) as given,
            zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made,
        ):
            members = given.infolist()
            if len(members) > MEMBERS_MAX or sum(one.file_size for one in members) > limit_bytes:
                raise ValueError("the archive holds too much")
            for member in members:
                content = given.read(member)
                if content.startswith(pictures):
                    made.writestr(redact(member.filename.encode()).decode(), content)
                elif _is_text(content):
                    made.writestr(redact(member.filename.encode()).decode(), redact(content))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"not a zip file: {error}") from error
    return out.getvalue()


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in content
