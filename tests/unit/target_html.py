"""Pages for tests of the resolver, written in HTML and read as the collector would read them: without a browser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

from recoup.model.target import Box, Element

ROLES = {
    **{"a": "link", "button": "button", "input": "textbox", "li": "listitem", "tr": "row", "td": "cell"},
    **{"article": "article", "fieldset": "group", "dialog": "dialog", "h1": "heading", "h2": "heading"},
    **{"h3": "heading", "caption": "caption", "table": "table", "ul": "list", "tbody": "rowgroup"},
}
TELLING = {*ROLES, "p", "section", "form", "legend", "label"}
INLINE = {"a", "b", "span", "label", "i"}
CONTAINERS = {"li", "tr", "article", "fieldset"}
VOID = {"input", "br"}


@dataclass
class Node:
    tag: str
    path: str
    attributes: dict[str, str]
    up: Node | None
    parts: list[Node | str] = field(default_factory=list)
    top: float = 0

    @property
    def visible(self) -> bool:
        hidden = "none" in self.attributes.get("style", "")
        return not hidden and (self.up is None or self.up.visible)

    @property
    def text(self) -> str:
        pieces = []
        for part in self.parts:
            if isinstance(part, str):
                pieces.append(part)
            elif part.visible:
                pieces.append(part.text if part.tag in INLINE else f" {part.text} ")
        return " ".join("".join(pieces).split())

    @property
    def is_telling(self) -> bool:
        own = any(isinstance(part, str) and part.strip() for part in self.parts)
        return own or self.tag in TELLING or "role" in self.attributes or "id" in self.attributes

    @property
    def container(self) -> Node | None:
        here: Node | None = self
        while here is not None and here.tag not in CONTAINERS:
            here = here.up
        return here


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = self.here = Node("body", "/html[1]/body[1]", {}, None)
        self.nodes: list[Node] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        number = 1 + sum(isinstance(part, Node) and part.tag == tag for part in self.here.parts)
        path = f"{self.here.path}/{tag}[{number}]"
        given = {name: value or "" for name, value in attrs}
        node = Node(tag, path, given, self.here, top=30.0 * len(self.nodes))
        self.here.parts.append(node)
        self.nodes.append(node)
        if tag not in VOID:
            self.here = node

    def handle_endtag(self, tag: str) -> None:
        assert self.here.tag == tag and self.here.up is not None, f"</{tag}> ends {self.here.tag}"
        self.here = self.here.up

    def handle_data(self, data: str) -> None:
        self.here.parts.append(data)


def read(html: str) -> list[Element]:
    reader = _Reader()
    reader.feed(html)
    assert reader.here is reader.root, "all tags end"
    labels = [node for node in reader.nodes if node.tag == "label"]
    return [_element(node, labels) for node in reader.nodes if node.is_telling]


def _element(node: Node, labels: list[Node]) -> Element:
    words = node.text
    label = next((one.text for one in labels if node in one.parts), "") if node.tag == "input" else ""
    legend = next((p.text for p in node.parts if isinstance(p, Node) and p.tag == "legend"), "")
    said = node.attributes.get("aria-label", "") or label or legend
    around = node.container
    shown = Box(10, node.top, 20 + 8 * len(words), 24)
    return Element(
        tag=node.tag,
        role=node.attributes.get("role", ROLES.get(node.tag, "")),
        name=said or (words if node.tag != "section" else ""),
        text=words,
        label=label,
        id=node.attributes.get("id", ""),
        container=around.text if around is not None else "",
        xpath=node.path,
        visible=node.visible,
        box=shown if node.visible else Box(0, 0, 0, 0),
    )
