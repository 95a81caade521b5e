"""Tell a story: `python -m examples NAME`. Without a name, say which there are."""

import argparse
import asyncio
import importlib
import sys
import tempfile
import time
from pathlib import Path

from examples.stage import Stage, StoryBroken

HERE = Path(__file__).parent


def names() -> list[str]:
    return sorted(one.parent.name for one in HERE.glob("*/story.py"))


def title(name: str) -> str:
    return str(importlib.import_module(f"examples.{name}.story").TITLE)


def tell(name: str, stage: Stage) -> None:
    """Tell one story to its end, or raise `StoryBroken`."""
    story = importlib.import_module(f"examples.{name}.story")
    stage.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(story.tell(stage))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples", description=__doc__)
    parser.add_argument("name", nargs="?", choices=names(), help="which story; without it, they are listed")
    parser.add_argument("--short", action="store_true", help="leave long waits and repetitions out")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep everything of the story here, to look at"
    )
    parser.add_argument(
        "--pictures", type=Path, metavar="FOLDER", help="take pictures of the console into this folder"
    )
    asked = parser.parse_args()
    if asked.name is None:
        print(*(f"{name:16} {title(name)}" for name in names()), sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="recoup-story-") as folder:
        stage = Stage((asked.keep or Path(folder)).resolve(), asked.short, asked.pictures)
        return _told(asked.name, stage, kept=asked.keep is not None)


def _told(name: str, stage: Stage, kept: bool) -> int:
    try:
        tell(name, stage)
    except StoryBroken as broken:
        print(f"\n{broken}", file=sys.stderr)
        return 1
    print(f"\nEverything held, in {time.monotonic() - stage.began:.0f} s.")
    if kept and (stage.home / "ledger.db").exists():
        print(f"Look at it: recoup --home {stage.home} runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
