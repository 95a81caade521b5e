"""What a plan runs in: a clone of a repository, or a copy of a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, Tag

from recoup.model.workspace import FolderSource, GitSource, Source
from recoup.shapes.shape import TAG, Shape, Text, branch


def _not_option(text: str) -> str:
    if text.startswith("-"):
        raise ValueError("must not begin with `-`")
    return text


def _local(path: str) -> str:
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/]+@[^/]+:", path):
        raise ValueError("must be a repository on this machine: clone it first, then name its folder")
    return path


def _home_known(path: str) -> str:
    try:
        Path(path).expanduser()
    except RuntimeError:
        raise ValueError(
            "begins with the home folder of somebody unknown here: write the whole path"
        ) from None
    return path


class GitShape(Shape):
    git: Annotated[Text, AfterValidator(_local), AfterValidator(_home_known)] = Field(
        description="A repository on this machine, relative to the plan. It is cloned, never written.",
        examples=["."],
    )
    ref: Annotated[Text, AfterValidator(_not_option)] | None = Field(
        None, description="A branch, tag or commit. Default: its HEAD.", examples=["main"]
    )

    def value(self, folder: Path) -> Source:
        return GitSource(_resolved(self.git, folder), self.ref)


class FolderShape(Shape):
    folder: Annotated[Text, AfterValidator(_home_known)] = Field(
        description="A folder, relative to the plan. It is copied, never written.", examples=["./site"]
    )

    def value(self, folder: Path) -> Source:
        return FolderSource(_resolved(self.folder, folder))


def _resolved(path: str, folder: Path) -> str:
    return os.path.normpath(folder / Path(path).expanduser())


def _which_workspace(value: Any) -> str | None:
    given = [key for key in ("git", "folder") if isinstance(value, dict) and key in value]
    return f"{TAG}{given[0]}" if len(given) == 1 else None


WorkspaceShape = Annotated[
    Annotated[GitShape, Tag(TAG + "git")] | Annotated[FolderShape, Tag(TAG + "folder")],
    branch(_which_workspace, "which_workspace"),
]
