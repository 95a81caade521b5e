"""Which of many vectors are nearest to one: exactly, with numpy or with FAISS. The answers are the same.

Both store the same bytes, so that what was written with FAISS serves where FAISS is not installed. FAISS's own format
is not used: it is loaded whatever happened to it.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from recoup.errors import LearningError, VersionDamaged
from recoup.learning.stamped import stamped, unstamped
from recoup.learning.vectors import DIMENSIONS, HASHED, Vector

ROWS_MAX: Final = 200_000
LABEL_CHARS_MAX: Final = 200
K_MAX: Final = 100
INDEX_FORMAT: Final = 1
FORMAT_WITH_MAKER: Final = 2
"""Of vectors that another vectoriser made: who knows only the first format must not compare with them."""

_SPARE: Final = 8
"""Asked for beyond what is wanted: at the end of the list the two may order almost equal ones differently."""
_DIGITS: Final = 6

Matrix = npt.NDArray[np.float32]


class Near(msgspec.Struct, frozen=True):
    label: str
    likeness: float


class _Header(msgspec.Struct, frozen=True):
    format: int
    dimensions: int
    labels: list[str]
    made_by: str = HASHED


class Index(Protocol):
    """Vectors of length one under labels. The nearest first; equally near ones in the order they were added."""

    def __len__(self) -> int: ...

    @property
    def labels(self) -> Sequence[str]: ...

    @property
    def made_by(self) -> str:
        """The name of the vectoriser."""
        ...

    def add(self, labels: Sequence[str], vectors: Matrix) -> None: ...

    def search(self, vector: Vector, k: int) -> list[Near]: ...

    def to_bytes(self) -> bytes: ...


class ExactIndex:
    def __init__(self, dimensions: int = DIMENSIONS, made_by: str = HASHED) -> None:
        self.made_by: Final = made_by
        self._labels: list[str] = []
        self._rows: Matrix = np.zeros((0, dimensions), np.float32)

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def labels(self) -> Sequence[str]:
        return self._labels

    def add(self, labels: Sequence[str], vectors: Matrix) -> None:
        rows = _checked_rows(len(self), self._rows.shape[1], labels, vectors)
        self._labels += labels
        self._rows = np.concatenate([self._rows, rows])

    def search(self, vector: Vector, k: int) -> list[Near]:
        asked = _checked_query(self._rows.shape[1], vector, k)
        wanted = min(k + _SPARE, len(self))
        if not wanted:
            return []
        # Not `@`: on a busy machine the threads of its library wait for each other longer than one of them works.
        likenesses = np.einsum("ij,j->i", self._rows, asked)
        places = np.argpartition(-likenesses, wanted - 1)[:wanted]
        return _ranked(self._labels, places, self._rows[places], asked)[:k]

    def to_bytes(self) -> bytes:
        return _packed(self.made_by, self._labels, self._rows)

    @classmethod
    def from_bytes(cls, data: bytes) -> ExactIndex:
        made_by, labels, rows = _unpacked(data)
        index = cls(rows.shape[1], made_by)
        index._labels, index._rows = labels, rows
        return index


class FaissIndex:
    """FAISS's flat index of inner products. Needs the extra `learn`."""

    def __init__(self, dimensions: int = DIMENSIONS, made_by: str = HASHED) -> None:
        self.made_by: Final = made_by
        self._labels: list[str] = []
        self._dimensions: Final = dimensions
        self._library: Final[Any] = _faiss()
        self._faiss: Final[Any] = self._library.IndexFlatIP(dimensions)

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def labels(self) -> Sequence[str]:
        return self._labels

    def add(self, labels: Sequence[str], vectors: Matrix) -> None:
        rows = _checked_rows(len(self), self._dimensions, labels, vectors)
        self._labels += labels
        self._faiss.add(rows)

    def search(self, vector: Vector, k: int) -> list[Near]:
        asked = _checked_query(self._dimensions, vector, k)
        wanted = min(k + _SPARE, len(self))
        if not wanted:
            return []
        # In the thread that asks: one core is quicker than several that wait for each other.
        self._library.omp_set_num_threads(1)
        _, [places] = self._faiss.search(asked[np.newaxis], wanted)
        return _ranked(self._labels, places, self._faiss.reconstruct_batch(places), asked)[:k]

    def to_bytes(self) -> bytes:
        return _packed(self.made_by, self._labels, self._faiss.reconstruct_n(0, len(self)))

    @classmethod
    def from_bytes(cls, data: bytes) -> FaissIndex:
        made_by, labels, rows = _unpacked(data)
        index = cls(rows.shape[1], made_by)
        if labels:
            index._faiss.add(rows)
        index._labels = labels
        return index


def is_faiss_there() -> bool:
    return importlib.util.find_spec("faiss") is not None


def new_index(dimensions: int = DIMENSIONS, made_by: str = HASHED) -> Index:
    """FAISS where it is installed."""
    return FaissIndex(dimensions, made_by) if is_faiss_there() else ExactIndex(dimensions, made_by)


def index_from(data: bytes) -> Index:
    return FaissIndex.from_bytes(data) if is_faiss_there() else ExactIndex.from_bytes(data)


def _faiss() -> Any:
    """Loaded late: it takes a while, and not every machine has it."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise LearningError(
            "FAISS is not installed", hint="Install the extra: pip install 'recoup[learn]'"
        ) from error


def _checked_rows(there: int, dimensions: int, labels: Sequence[str], vectors: Matrix) -> Matrix:
    rows = np.ascontiguousarray(vectors, np.float32)
    if rows.shape != (len(labels), dimensions):
        raise LearningError(f"{len(labels)} vectors of {dimensions} numbers were promised, not {rows.shape}")
    if there + len(labels) > ROWS_MAX:
        raise LearningError(f"an index has at most {ROWS_MAX} vectors, not {there + len(labels)}")
    if any(len(label) > LABEL_CHARS_MAX for label in labels):
        raise LearningError(f"a label has at most {LABEL_CHARS_MAX} characters")
    if not np.isfinite(rows).all():
        raise LearningError("a vector consists of finite numbers")
    return rows


def _checked_query(dimensions: int, vector: Vector, k: int) -> Vector:
    asked = np.ascontiguousarray(vector, np.float32)
    if asked.shape != (dimensions,) or not np.isfinite(asked).all():
        raise LearningError(f"a vector of {dimensions} finite numbers is asked about, not {asked.shape}")
    if not 1 <= k <= K_MAX:
        raise LearningError(f"1 to {K_MAX} neighbours can be asked for, not {k}")
    return asked


def _ranked(labels: Sequence[str], places: npt.NDArray[Any], rows: Matrix, asked: Vector) -> list[Near]:
    """By one arithmetic for both: they round differently, and the order must not depend on it."""
    likenesses = np.round(rows.astype(np.float64) @ asked.astype(np.float64), _DIGITS)
    order = np.lexsort((places, -likenesses))
    return [Near(labels[places[at]], float(likenesses[at])) for at in order]


def _packed(made_by: str, labels: list[str], rows: Matrix) -> bytes:
    header = msgspec.json.encode(_Header(_format_of(made_by), rows.shape[1], labels, made_by))
    return stamped(b"".join([len(header).to_bytes(8, "little"), header, rows.astype("<f4").tobytes()]))


def _format_of(made_by: str) -> int:
    return INDEX_FORMAT if made_by == HASHED else FORMAT_WITH_MAKER


def _unpacked(data: bytes) -> tuple[str, list[str], Matrix]:
    """The digest first: of what was altered not a number is used."""
    body = unstamped(data, "the index")
    end = 8 + int.from_bytes(body[:8], "little")
    try:
        header = msgspec.json.decode(body[8:end], type=_Header)
        if header.format != _format_of(header.made_by):
            raise VersionDamaged(
                f"this index has format {header.format}, and format {INDEX_FORMAT} is understood here"
            )
        rows = np.frombuffer(body[end:], "<f4").astype(np.float32).reshape(-1, header.dimensions)
    except (msgspec.MsgspecError, ValueError) as error:
        raise VersionDamaged(f"what was stored is no index: {error}") from error
    return header.made_by, header.labels, _checked_rows(0, header.dimensions, header.labels, rows)
