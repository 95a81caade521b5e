"""Vectors by meaning: a tiny real model, made by the library itself, in a folder."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from model2vec import StaticModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from recoup.errors import LearningError, VersionDamaged
from recoup.learning import sentences as sentences_module
from recoup.learning.index import ExactIndex, index_from
from recoup.learning.proposals import index_of, proposed
from recoup.learning.recall import Recall
from recoup.learning.sentences import FILES, Sentences, vectoriser
from recoup.learning.stamped import stamped, unstamped
from recoup.learning.vectors import DIMENSIONS, HASHED, HASHING, likeness
from recoup.model.instant import Instant
from recoup.model.memory import Entry, Found, Kept, State
from recoup.model.target import Element
from recoup.settings import read_settings

NOW = Instant(1_800_000_000_000_000, 1, "boot")
MEANINGS = {"buy": 0, "purchase": 0, "order": 1, "delete": 2, "remove": 2, "button": 3}


def saved(folder: Path, dimensions: int = 8, twist: float = 0.0) -> Path:
    """Words that mean the same lie in the same direction, almost."""
    rows = np.zeros((len(MEANINGS) + 1, dimensions), np.float32)
    for place, meaning in enumerate(MEANINGS.values(), 1):
        rows[place, meaning] = 1
        rows[place, 4 + place % 4] = 0.1 + twist
    vocabulary = {"[UNK]": 0} | {word: place for place, word in enumerate(MEANINGS, 1)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    StaticModel(rows, tokenizer, config={"normalize": False}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("model"))


def button(words: str) -> Element:
    return Element(tag="button", role="button", name=words, text=words)


def learned(*words: str) -> State:
    entries = [Entry("s", "t", one, button(one), "model", 1.0) for one in words]
    return State({(("s", "t"), entry.identity): entry for entry in entries}, {})


def test_words_that_mean_the_same_are_near_whatever_their_letters(model: Path) -> None:
    vectors = Sentences(model)
    buy, purchase, delete = (vectors.of_element(button(words)) for words in ("buy", "purchase", "delete"))
    assert likeness(buy, purchase) > 0.9 > 0.5 > likeness(buy, delete)
    letters = [HASHING.of_element(button(words)) for words in ("buy", "purchase", "delete")]
    assert abs(likeness(letters[0], letters[1]) - likeness(letters[0], letters[2])) < 0.2


def test_a_vector_has_length_one_or_says_nothing(model: Path) -> None:
    vectors = Sentences(model)
    for element in (
        button("buy order"),
        button("remove_order-buy"),
        button("\ud800 buy"),
        button("buy " * 9_000),
    ):
        made = vectors.of_element(element)
        assert made.shape == (vectors.dimensions,)
        assert np.linalg.norm(made) == pytest.approx(1, abs=1e-6)
    assert not vectors.of_element(Element(tag="")).any()


def test_what_was_learned_is_proposed_by_what_it_means(model: Path) -> None:
    vectors = Sentences(model)
    index = index_of(learned("delete order", "purchase order"), vectors=vectors)
    assert proposed(index, button("buy order"), vectors=vectors)[0].label == "purchase order"


def test_the_bytes_say_who_made_them_and_nobody_else_is_asked(model: Path) -> None:
    vectors, state = Sentences(model), learned("delete order", "purchase order")
    stored = index_of(state, vectors=vectors).to_bytes()
    read = index_from(stored)
    assert read.made_by == vectors.name == ExactIndex.from_bytes(stored).made_by
    with pytest.raises(LearningError, match=f"made by {vectors.name}, and is asked by {HASHED}"):
        proposed(read, button("buy order"))
    assert index_of(state, read, vectors) is read


def test_what_another_made_is_made_anew(model: Path, tmp_path: Path) -> None:
    state, first, second = (
        learned("delete order"),
        Sentences(model),
        Sentences(saved(tmp_path / "m", twist=0.3)),
    )
    assert first.name != second.name, "another model is another vectoriser"
    of_first = index_of(state, vectors=first)
    for vectors in (second, HASHING):
        rebuilt = index_of(state, of_first, vectors)
        assert (rebuilt.made_by, list(rebuilt.labels)) == (vectors.name, ["delete order"])
        assert proposed(rebuilt, button("delete order"), vectors=vectors)[0].likeness == pytest.approx(1)
    assert of_first.made_by == first.name and len(of_first) == 1
    hashed = index_of(state)
    assert index_of(state, hashed, first).made_by == first.name


def test_who_knows_only_letters_does_not_take_others_for_them() -> None:
    """By the format: the name of the maker is one that an older program passes over."""
    hashed, other = ExactIndex().to_bytes(), ExactIndex(made_by="sentences:1").to_bytes()
    assert b'"format":1' in hashed and b'"format":2' in other
    renamed = unstamped(other, "the index").tobytes().replace(b'"sentences:1"', b'"hashing"    ')
    with pytest.raises(VersionDamaged, match="format 2"):
        index_from(stamped(renamed))


def test_an_index_from_before_there_were_several_is_of_letters() -> None:
    index = ExactIndex()
    index.add(["a"], HASHING.of_element(button("buy"))[np.newaxis])
    stored = index.to_bytes()
    assert index_from(stored).made_by == HASHED
    assert HASHING.dimensions == DIMENSIONS


def warned(folder: Path | None) -> tuple[str, list[str]]:
    words: list[str] = []
    return vectoriser(folder, words.append).name, words


def test_without_a_folder_letters_serve_and_nothing_is_said(model: Path) -> None:
    assert warned(None) == (HASHED, [])
    name, words = warned(model)
    assert name.startswith("sentences:") and not words


@pytest.mark.parametrize("missing", FILES)
def test_without_a_model_letters_serve_and_it_is_said(tmp_path: Path, missing: str) -> None:
    (saved(tmp_path / "m") / missing).unlink()
    name, [words] = warned(tmp_path / "m")
    assert name == HASHED
    assert f"there is no sentence model in {tmp_path / 'm'}" in words
    assert "RECOUP_SENTENCES names a folder with model.safetensors" in words


def test_a_damaged_model_is_told(tmp_path: Path) -> None:
    (saved(tmp_path / "m") / "model.safetensors").write_bytes(b"no tensors")
    name, [words] = warned(tmp_path / "m")
    assert name == HASHED and "cannot be read" in words


def test_without_the_extra_letters_serve_and_it_is_said(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "model2vec", None)
    name, [words] = warned(model)
    assert name == HASHED and "pip install 'recoup[sentences]'" in words


def test_a_model_has_limits(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as small:
        small.setattr(sentences_module, "MODEL_BYTES_MAX", 10)
        assert "at most 10" in warned(model)[1][0]
    monkeypatch.setattr(sentences_module, "DIMENSIONS_MAX", 4)
    assert "vectors of 8 numbers" in warned(model)[1][0]


def test_the_folder_is_a_setting(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert read_settings(environ, tmp_path).sentences is None
    assert (
        read_settings(environ | {"RECOUP_SENTENCES": "~/m"}, tmp_path).sentences == Path("~/m").expanduser()
    )


def kept(*words: str) -> Kept:
    return Kept(version="v000001", up_to=1, state=learned(*words), found=Found())


async def test_a_version_on_disk_is_searched_by_whoever_made_it_or_built_anew(
    model: Path, tmp_path: Path
) -> None:
    state = learned("delete order", "purchase order")
    by_meaning = Recall(tmp_path / "learned", model)
    await by_meaning.follow("w", "v000001", kept("delete order", "purchase order"), NOW, 5)
    for recall, name in (
        (Recall(tmp_path / "learned", model), "sentences:"),
        (Recall(tmp_path / "learned"), HASHED),
    ):
        found, trouble = await recall.last("w")
        assert found is not None and not trouble
        assert recall.proposed("w", state, button("purchase order"))[0].name == "purchase order"
        assert recall._indexes["w"].made_by.startswith(name)
        assert recall.warnings() == []
    assert by_meaning.proposed("w", state, button("buy order"))[0].name == "purchase order"


async def test_a_missing_model_is_said_once_and_letters_serve(tmp_path: Path) -> None:
    recall = Recall(tmp_path / "learned", tmp_path / "none")
    assert await recall.last("w") == (None, "")
    state = learned("delete order", "purchase order")
    assert recall.proposed("w", state, button("delete order"))[0].name == "delete order"
    [words] = recall.warnings()
    assert f"there is no sentence model in {tmp_path / 'none'}" in words
    assert recall.warnings() == []
