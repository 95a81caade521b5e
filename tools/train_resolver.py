"""Make the resolver's weights: python -m tools.train_resolver PAIRS [--out FILE]

PAIRS is a folder with recorded changes of web pages: `pairs.jsonl` (site, target: the element as it was, truth: its row
on the page as it is) and `cand_SITE.jsonl.gz` (the elements of each page as it is). Everything else is made up from a
fixed seed, so that the same folder gives the same weights. The shipped ones are made from the pairs of 21 web sites,
2015 to 2020, that Nass, Alégroth, Feldt, Leotta and Ricca chose for "Similarity-based web element localization for
robust test automation", as captured again in wuhonglei/Similo2-JS; nothing of the pages is in them but numbers.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path

from benchmarks.locators.elements import element_of
from tools.resolver_training.drift import Pair
from tools.resolver_training.questions import Amounts, questions
from tools.resolver_training.training import Training, train

from recoup.model.target import Element
from recoup.targets.weights import stored_bytes

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "src" / "recoup" / "targets" / "weights.json"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    pairs, pages = load(given.pairs)
    asked = questions(pairs, pages, Amounts())
    sys.stdout.write(f"{len(asked)} questions of {len({question.site for question in asked})} sites\n")
    given.out.write_bytes(stored_bytes(train(asked, Training())))
    sys.stdout.write(f"{given.out.stat().st_size / 1024:.0f} KiB of weights in {given.out.name}\n")


def load(folder: Path) -> tuple[list[Pair], dict[str, list[Element]]]:
    rows = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
    pages = {
        path.name.removeprefix("cand_").removesuffix(".jsonl.gz"): _elements(path)
        for path in sorted(folder.glob("cand_*.jsonl.gz"))
    }
    return [Pair(row["site"], element_of(row["target"]), row["truth"]) for row in rows], pages


def _elements(path: Path) -> list[Element]:
    return [element_of(json.loads(line)) for line in gzip.decompress(path.read_bytes()).splitlines()]


if __name__ == "__main__":
    main()
