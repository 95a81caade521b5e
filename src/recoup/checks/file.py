"""`file:` checks: a path that must exist (or not), perhaps with this in it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from recoup.checks.files import FILE_BYTES_MAX, beginning_of, exists
from recoup.checks.kind import Absent, CheckKind, NotAsked, Shapes, Surroundings
from recoup.checks.spots import Fill, Spot
from recoup.checks.text_match import SPOTS, filled_match, find
from recoup.model.plan import FileCheck


class FileKind(CheckKind[FileCheck]):
    spots = SPOTS

    def make_shapes(self) -> Shapes:
        from pydantic import Field, model_validator

        from recoup.checks.check_shape import CheckShape
        from recoup.shapes.forms import Match, match_value
        from recoup.shapes.shape import Text

        class FileShape(CheckShape):
            file: Text = Field(
                description="A path, relative to the workspace, that must exist.",
                examples=["out/invoices.json"],
            )
            absent: bool = Field(False, description="The path must not exist instead.", examples=[True])
            contains: Match | None = Field(
                None,
                description="Text that must occur in the file, or {regex: …}.",
                examples=["done", {"regex": "total: [0-9]+"}],
            )

            @model_validator(mode="after")
            def _says_one_thing(self) -> FileShape:
                if self.absent and self.contains is not None:
                    raise ValueError("a file that is absent contains nothing: keep `absent` or `contains`")
                return self

            def value(self) -> FileCheck:
                contains = None if self.contains is None else match_value(self.contains)
                return FileCheck(self.file, self.absent, contains)

        return Shapes({"file": FileShape})

    def words(self, check: FileCheck) -> str:
        return f"file: {check.path}{' absent' if check.absent else ''}"

    def filled(self, check: FileCheck, fill: Fill) -> FileCheck:
        contains = None if check.contains is None else filled_match(check.contains, fill)
        return msgspec.structs.replace(check, path=fill(check.path, Spot.TEXT), contains=contains)

    async def examine(self, check: FileCheck, around: Surroundings) -> str:
        folder, path = around.scene.cwd, check.path
        if check.absent:
            if exists(folder, path) or Path(folder, path).is_symlink():
                raise Absent(f"{path} is there")
            return "absent"
        if not exists(folder, path):
            raise Absent(f"{path} does not exist")
        if check.contains is None:
            return "exists"
        text, is_whole = beginning_of(folder, path)
        try:
            return find(check.contains, text, path)
        except Absent as absent:
            if is_whole:
                raise
            words = f"{absent} in its first {FILE_BYTES_MAX} bytes; the rest was not read"
            raise NotAsked(words) from None


CHECK = FileKind()
