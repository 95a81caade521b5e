"""Elements as vectors of what their words mean: a sentence model in a folder of the user's own, never fetched.

The library is model2vec: its models are tables of words, and numpy is all that they need. They are as good as the model
is; the bits may differ between machines, and so these vectors stay where they were made.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from recoup.errors import LearningError
from recoup.files.named import opened
from recoup.learning.vectors import HASHING, TEXT_CHARS_MAX, Vector, Vectoriser, fields_of
from recoup.model.target import Element

FILES: Final = ("model.safetensors", "tokenizer.json", "config.json")
MODEL_BYTES_MAX: Final = 2 << 30
DIMENSIONS_MAX: Final = 4_096
TOKENS_MAX: Final = 512
_DIGEST_CHARS: Final = 16
_SAYS: Final = frozenset({"said", "name", "kind", "key", "container"})
"""What consists of words. Links, classes and ancestors do not."""


def vectoriser(folder: Path | None, warn: Callable[[str], None]) -> Vectoriser:
    """Of the model in this folder; where it cannot be used, runs of characters go on, and `warn` is told why."""
    if folder is None:
        return HASHING
    try:
        return Sentences(folder)
    except LearningError as error:
        warn(f"{error.message}; what was learned is compared by its letters. {error.hint}")
        return HASHING


class Sentences:
    """By what the words mean to a model. Needs the extra `sentences`."""

    def __init__(self, folder: Path) -> None:
        """Raises LearningError."""
        self.name: Final = f"sentences:{_digest(folder)}"
        self._model: Final = _loaded(folder)
        self.dimensions: Final = int(self._model.dim)
        if not 0 < self.dimensions <= DIMENSIONS_MAX:
            raise LearningError(
                f"the model in {folder} makes vectors of {self.dimensions} numbers",
                hint=f"Choose one with at most {DIMENSIONS_MAX}.",
            )

    def of_element(self, element: Element) -> Vector:
        told = [
            (text[:TEXT_CHARS_MAX], weight)
            for field, text, weight in fields_of(element)
            if field in _SAYS and text.strip()
        ]
        if not told:
            return np.zeros(self.dimensions, np.float32)
        rows = self._model.encode(
            [_spoken(text) for text, _ in told], max_length=TOKENS_MAX, use_multiprocessing=False
        )
        weights = np.array([weight for _, weight in told], np.float64)
        return _unit(weights @ _units(np.asarray(rows, np.float64)))


def _spoken(text: str) -> str:
    """Ids are words too, without what joins them. Lone surrogates are none."""
    return text.replace("_", " ").replace("-", " ").encode("utf-8", "replace").decode()


def _units(rows: Any) -> Any:
    """Each of length one, so that long texts say no more than short ones."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


def _unit(vector: Any) -> Vector:
    length = float(np.linalg.norm(vector))
    return np.asarray(vector / length if length else vector, np.float32)


def _loaded(folder: Path) -> Any:
    """Loaded late: not every machine has the library. With a folder that is there, it asks nobody else for a model."""
    try:
        library = importlib.import_module("model2vec")
    except ImportError as error:
        raise LearningError(
            "the library for sentence models is not installed",
            hint="Install the extra: pip install 'recoup[sentences]'",
        ) from error
    try:
        return library.StaticModel.from_pretrained(folder)
    except Exception as error:  # the library lets through whatever its parts raise
        raise LearningError(
            f"the sentence model in {folder} cannot be read: {error}",
            hint="It must be a folder as model2vec's save_pretrained writes it.",
        ) from error


def _digest(folder: Path) -> str:
    """Of the model itself: another model in the same folder is another vectoriser."""
    total = hashlib.sha256()
    try:
        sizes = [(folder / name).stat().st_size for name in FILES]
        if sum(sizes) > MODEL_BYTES_MAX:
            raise LearningError(
                f"the sentence model in {folder} has {sum(sizes):,} bytes",
                hint=f"Choose one with at most {MODEL_BYTES_MAX:,}.",
            )
        for name in FILES:
            with opened(folder / name) as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    except OSError as error:
        raise LearningError(
            f"there is no sentence model in {folder}: {error.strerror}",
            hint=f"RECOUP_SENTENCES names a folder with {', '.join(FILES)}; models are never fetched.",
        ) from error
    return total.hexdigest()[:_DIGEST_CHARS]
