"""One thing done in the run's browser, as people write it: the verb is the key, next to it what to do with dialogs."""

from __future__ import annotations

import re
from abc import abstractmethod
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, Tag, TypeAdapter, model_validator

from recoup.kernel.references import OPENING
from recoup.model.plan import BrowserAction, BrowserVerb, Dialog
from recoup.shapes.durations import duration_s
from recoup.shapes.forms import FieldName, carried
from recoup.shapes.keyboard import wrong_key
from recoup.shapes.page_keys import is_pause, verbs_in
from recoup.shapes.shape import (
    TAG,
    AnyText,
    Shape,
    Text,
    as_written,
    at_most,
    branch,
    scalar_schema,
    text_or,
)
from recoup.shapes.target_shape import (
    AnyTarget,
    MaybeTargetShape,
    TargetShape,
    TargetText,
    target_of,
    without_references,
)

ADDRESS_CHARS_MAX = 20_000
DIALOG_CHARS_MAX = 10_000
PATH_CHARS_MAX = 1_000
CHOICES_MAX = 100
SCHEMES = ("http://", "https://", "file://", "about:", "data:")
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"


class DialogShape(Shape):
    accept: bool = Field(True, description="Whether it is accepted.", examples=[True])
    text: Annotated[AnyText, at_most(DIALOG_CHARS_MAX)] | None = Field(
        None, description="What is written into a prompt.", examples=["yes"]
    )

    @model_validator(mode="after")
    def _says_one_thing(self) -> DialogShape:
        if self.text is not None and not self.accept:
            raise ValueError(
                "a dialog that is dismissed is told nothing: remove `text`, or say `accept: true`"
            )
        return self

    def value(self) -> Dialog:
        return Dialog(self.accept, self.text)


AnyDialog = Annotated[
    Annotated[DialogShape, Tag(TAG + "dialog")] | Annotated[Literal["accept", "dismiss"], Tag(TAG + "text")],
    branch(text_or("dialog")),
]


class VerbShape(Shape):
    """What all verbs have."""

    verb: ClassVar[BrowserVerb]

    dialog: AnyDialog | None = Field(
        None,
        description="What is done with a dialog that opens meanwhile. Default: dismissed, and the step fails.",
        examples=["accept", "dismiss", {"accept": True, "text": "yes"}],
    )

    @abstractmethod
    def done(self) -> BrowserAction:
        """Without the dialog."""

    def action(self) -> BrowserAction:
        if self.dialog is None:
            return self.done()
        dialog = Dialog(self.dialog == "accept") if isinstance(self.dialog, str) else self.dialog.value()
        return msgspec.structs.replace(self.done(), dialog=dialog)


def _address(address: str) -> str:
    if address.startswith((*SCHEMES, OPENING)):
        return address
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9])", address):
        raise ValueError("is no address of a page: it begins with https://, http:// or file://")
    raise ValueError("must be a whole address: begin with https:// or http://")


class GotoShape(VerbShape):
    verb = BrowserVerb.GOTO
    goto: Annotated[Text, at_most(ADDRESS_CHARS_MAX), AfterValidator(_address)] = Field(
        description="The address of a page to open.", examples=["https://shop.example/invoices"]
    )

    def done(self) -> BrowserAction:
        return BrowserAction(verb=self.verb, value=self.goto)


class ClickedShape(TargetShape):
    """What is clicked, and how."""

    double: bool = Field(False, description="Twice.", examples=[True])
    button: Literal["left", "right", "middle"] | None = Field(
        None, description="With which button of the mouse. Default: left.", examples=["right"]
    )


class ClickShape(VerbShape):
    verb = BrowserVerb.CLICK
    click: Annotated[
        Annotated[ClickedShape, Tag(TAG + "clicked")] | Annotated[TargetText, Tag(TAG + "text")],
        branch(text_or("clicked")),
    ] = Field(
        description="The element to click.",
        examples=["Approve", {"role": "button", "name": "Approve", "near": "INV-1001"}],
    )

    def done(self) -> BrowserAction:
        action = BrowserAction(verb=self.verb, target=target_of(self.click))
        if isinstance(self.click, str):
            return action
        return msgspec.structs.replace(action, double=self.click.double, button=self.click.button)


class FilledShape(TargetShape):
    """The field that is filled, and with what."""

    value: Annotated[AnyText, AfterValidator(carried)] = Field(
        description="What is typed into it; a secret may stand here.", examples=["12.50", "${{ inputs.pin }}"]
    )


class FillShape(VerbShape):
    verb = BrowserVerb.FILL
    fill: FilledShape = Field(
        description="The field to fill, and with what.", examples=[{"label": "Amount", "value": "12.50"}]
    )

    def done(self) -> BrowserAction:
        return BrowserAction(verb=self.verb, target=target_of(self.fill), value=self.fill.value)


def _key(written: str) -> str:
    wrong = None if OPENING in written else wrong_key(written)
    if wrong:
        raise ValueError(wrong)
    return written


def _not_nothing(key: str) -> str:
    if not key:
        raise ValueError("must not be empty")
    return key


Key = Annotated[
    str,
    BeforeValidator(as_written),
    AfterValidator(_not_nothing),
    at_most(100),
    AfterValidator(_key),
    scalar_schema(minLength=1),
]


class PressedShape(MaybeTargetShape):
    """The key that is pressed, and where."""

    key: Key = Field(description="The key, or several held together.", examples=["Enter", "Control+A"])


class PressShape(VerbShape):
    verb = BrowserVerb.PRESS
    press: Annotated[
        Annotated[PressedShape, Tag(TAG + "pressed")] | Annotated[Key, Tag(TAG + "text")],
        branch(text_or("pressed")),
    ] = Field(
        description="The key to press, where the cursor is or in an element.",
        examples=["Enter", {"label": "Search", "key": "Enter"}],
    )

    def done(self) -> BrowserAction:
        if isinstance(self.press, str):
            return BrowserAction(verb=self.verb, value=self.press)
        return BrowserAction(verb=self.verb, target=self.press.target(), value=self.press.key)


Choice = Annotated[AnyText, at_most(ADDRESS_CHARS_MAX)]


class SelectedShape(TargetShape):
    """Where something is selected, and what."""

    option: Choice | None = Field(None, description="An option, by its label or value.", examples=["Germany"])
    options: Annotated[list[Choice], Field(min_length=1, max_length=CHOICES_MAX)] | None = Field(
        None, description="Several of them.", examples=[["Germany", "France"]]
    )

    @model_validator(mode="after")
    def _chooses(self) -> SelectedShape:
        if (self.option is None) == (self.options is None):
            raise ValueError("select one `option`, or a list of `options`: keep exactly one of the two")
        return self

    def chosen(self) -> tuple[str, ...]:
        return (self.option,) if self.option is not None else tuple(self.options or ())


class SelectShape(VerbShape):
    verb = BrowserVerb.SELECT
    select: SelectedShape = Field(
        description="Where to select, and what.", examples=[{"label": "Country", "option": "Germany"}]
    )

    def done(self) -> BrowserAction:
        return BrowserAction(verb=self.verb, target=target_of(self.select), values=self.select.chosen())


class CheckedShape(VerbShape):
    verb = BrowserVerb.CHECK
    check: AnyTarget = Field(description="The box to check.", examples=[{"label": "I agree"}])

    def done(self) -> BrowserAction:
        return BrowserAction(verb=self.verb, target=target_of(self.check))


class UncheckedShape(VerbShape):
    verb = BrowserVerb.UNCHECK
    uncheck: AnyTarget = Field(description="The box to uncheck.", examples=[{"label": "Newsletter"}])

    def done(self) -> BrowserAction:
        return BrowserAction(verb=self.verb, target=target_of(self.uncheck))


File = Annotated[Text, at_most(PATH_CHARS_MAX)]


class UploadedShape(TargetShape):
    """Where something is uploaded, and what."""

    file: File | None = Field(
        None, description="A file, relative to the workspace.", examples=["out/invoice.pdf"]
    )
    files: Annotated[list[File], Field(min_length=1, max_length=CHOICES_MAX)] | None = Field(
        None, description="Several of them.", examples=[["out/a.pdf", "out/b.pdf"]]
    )

    @model_validator(mode="after")
    def _has_files(self) -> UploadedShape:
        if (self.file is None) == (self.files is None):
            raise ValueError("upload one `file`, or a list of `files`: keep exactly one of the two")
        return self

    def chosen(self) -> tuple[str, ...]:
        return (self.file,) if self.file is not None else tuple(self.files or ())


class UploadShape(VerbShape):
    verb = BrowserVerb.UPLOAD
    upload: UploadedShape = Field(
        description="Where to upload, and what.", examples=[{"label": "Receipt", "file": "out/receipt.pdf"}]
    )

    def done(self) -> BrowserAction:
        return BrowserAction(verb=self.verb, target=target_of(self.upload), values=self.upload.chosen())


class HoverShape(VerbShape):
    verb = BrowserVerb.HOVER
    hover: AnyTarget = Field(description="The element to point at.", examples=["Menu"])

    def done(self) -> BrowserAction:
        return BrowserAction(verb=self.verb, target=target_of(self.hover))


class AwaitedShape(TargetShape):
    """The element that is waited for."""

    hidden: bool = Field(False, description="Until it is not to be seen any more.", examples=[True])


def _waited_for(written: Any) -> float | str:
    """So many seconds, or words."""
    if not is_pause(written):
        return _WORDS.validate_python(written)
    try:
        return duration_s(written)
    except ValueError as error:
        hint = "; for words on the page write {text: …}" if isinstance(written, str) else ""
        raise ValueError(f"{error}{hint}") from None


_WORDS: TypeAdapter[str] = TypeAdapter(TargetText)


class WaitShape(VerbShape):
    verb = BrowserVerb.WAIT
    wait: Annotated[
        Annotated[AwaitedShape, Tag(TAG + "awaited")]
        | Annotated[float | str, PlainValidator(_waited_for), scalar_schema(minLength=1), Tag(TAG + "text")],
        branch(text_or("awaited")),
    ] = Field(
        description="What to wait for: a while, or an element to be seen, or not to be seen.",
        examples=["2s", "Approved", {"role": "progressbar", "hidden": True}],
    )

    def done(self) -> BrowserAction:
        if isinstance(self.wait, float):
            return BrowserAction(verb=self.verb, seconds=self.wait)
        hidden = isinstance(self.wait, AwaitedShape) and self.wait.hidden
        return BrowserAction(verb=self.verb, target=target_of(self.wait), hidden=hidden)


class ReadingShape(TargetShape):
    """What is read, and what it is called then."""

    into: FieldName = Field(
        description="The name of the output: ${{ steps.ID.outputs.NAME }}.", examples=["total"]
    )
    attribute: Annotated[Text, at_most(100)] | None = Field(
        None, description="Read this attribute instead of the text.", examples=["href"]
    )
    table: bool = Field(
        False, description="Read a table: a list of rows by the names of its columns.", examples=[True]
    )

    @model_validator(mode="after")
    def _reads_one_thing(self) -> ReadingShape:
        if self.table and self.attribute is not None:
            raise ValueError("a table is read whole: keep `table` or `attribute`")
        return self


class ReadShape(VerbShape):
    verb = BrowserVerb.READ
    read: ReadingShape = Field(
        description="What to read, and into which output.", examples=[{"test_id": "total", "into": "total"}]
    )

    def done(self) -> BrowserAction:
        said_here = self.read
        return BrowserAction(
            verb=self.verb,
            target=target_of(said_here),
            into=said_here.into,
            attribute=said_here.attribute,
            table=said_here.table,
        )


def _plain_name(name: str) -> str:
    if re.fullmatch(_NAME, without_references(name)) is None:
        raise ValueError(
            "must be a name of at most 100 letters, digits, `.`, `_` or `-`, beginning with a letter or digit"
        )
    return name


PictureName = Annotated[Text, AfterValidator(_plain_name)]


class PictureShape(MaybeTargetShape):
    """What is on the picture, and its name."""

    called: PictureName = Field(alias="as", description="The name of the picture.", examples=["invoices"])


class ScreenshotShape(VerbShape):
    verb = BrowserVerb.SCREENSHOT
    screenshot: Annotated[
        Annotated[PictureShape, Tag(TAG + "picture")] | Annotated[PictureName, Tag(TAG + "text")],
        branch(text_or("picture")),
    ] = Field(
        description="The name of a picture of what is in view, or of an element.",
        examples=["invoices", {"role": "table", "as": "invoices"}],
    )

    def done(self) -> BrowserAction:
        if isinstance(self.screenshot, str):
            return BrowserAction(verb=self.verb, value=self.screenshot)
        return BrowserAction(verb=self.verb, target=self.screenshot.target(), value=self.screenshot.called)


def _inside(path: str) -> str:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or path.endswith("/"):
        raise ValueError("must be a file inside the workspace, such as `out/report.pdf`")
    return path


class DownloadedShape(TargetShape):
    """What is clicked for a download, and where the file goes."""

    into: Annotated[File, AfterValidator(_inside)] = Field(
        description="Where the file goes, relative to the workspace.", examples=["out/report.pdf"]
    )


class DownloadShape(VerbShape):
    verb = BrowserVerb.DOWNLOAD
    download: DownloadedShape = Field(
        description="What to click for a download, and where the file goes.",
        examples=[{"role": "link", "name": "Report", "into": "out/report.pdf"}],
    )

    def done(self) -> BrowserAction:
        return BrowserAction(verb=self.verb, target=target_of(self.download), into=self.download.into)


def _tab(tab: str) -> str:
    if re.fullmatch(r"[-+]?0*", tab) or re.fullmatch(r"-[0-9]+", tab):
        raise ValueError("counts from 1: say which tab, or `last`")
    return tab


class TabShape(VerbShape):
    verb = BrowserVerb.TAB
    tab: Annotated[Text, at_most(PATH_CHARS_MAX), AfterValidator(_tab)] = Field(
        description="The tab to go on in: new, last, its number from 1, or part of its address.",
        examples=["last", "new", 2, "/checkout"],
    )

    def done(self) -> BrowserAction:
        return BrowserAction(verb=self.verb, value=self.tab)


VERB_SHAPES: dict[str, type[VerbShape]] = {
    shape.verb.value: shape
    for shape in (
        GotoShape,
        ClickShape,
        FillShape,
        PressShape,
        SelectShape,
        CheckedShape,
        UncheckedShape,
        UploadShape,
        HoverShape,
        WaitShape,
        ReadShape,
        ScreenshotShape,
        DownloadShape,
        TabShape,
    )
}


def _which_verb(value: Any) -> str | None:
    given = verbs_in(value)
    return f"{TAG}verb-{given[0]}" if len(given) == 1 else None


BrowserShape = Annotated[
    Annotated[GotoShape, Tag(TAG + "verb-goto")]
    | Annotated[ClickShape, Tag(TAG + "verb-click")]
    | Annotated[FillShape, Tag(TAG + "verb-fill")]
    | Annotated[PressShape, Tag(TAG + "verb-press")]
    | Annotated[SelectShape, Tag(TAG + "verb-select")]
    | Annotated[CheckedShape, Tag(TAG + "verb-check")]
    | Annotated[UncheckedShape, Tag(TAG + "verb-uncheck")]
    | Annotated[UploadShape, Tag(TAG + "verb-upload")]
    | Annotated[HoverShape, Tag(TAG + "verb-hover")]
    | Annotated[WaitShape, Tag(TAG + "verb-wait")]
    | Annotated[ReadShape, Tag(TAG + "verb-read")]
    | Annotated[ScreenshotShape, Tag(TAG + "verb-screenshot")]
    | Annotated[DownloadShape, Tag(TAG + "verb-download")]
    | Annotated[TabShape, Tag(TAG + "verb-tab")],
    branch(_which_verb, "which_verb"),
]
