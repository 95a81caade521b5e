"""The roles of ARIA, and what people write instead of them."""

from __future__ import annotations

ROLES = frozenset(
    (
        *("alert", "alertdialog", "application", "article", "banner", "blockquote", "button"),
        *("caption", "cell", "checkbox", "code", "columnheader", "combobox", "comment"),
        *("complementary", "contentinfo", "definition", "deletion", "dialog", "directory"),
        *("document", "emphasis", "feed", "figure", "form", "generic", "grid", "gridcell", "group"),
        *("heading", "image", "img", "insertion", "link", "list", "listbox", "listitem", "log"),
        *("main", "mark", "marquee", "math", "menu", "menubar", "menuitem", "menuitemcheckbox"),
        *("menuitemradio", "meter", "navigation", "none", "note", "option", "paragraph"),
        *("presentation", "progressbar", "radio", "radiogroup", "region", "row", "rowgroup"),
        *("rowheader", "scrollbar", "search", "searchbox", "separator", "slider", "spinbutton"),
        *("status", "strong", "subscript", "suggestion", "superscript", "switch", "tab", "table"),
        *("tablist", "tabpanel", "term", "textbox", "time", "timer", "toolbar", "tooltip", "tree"),
        *("treegrid", "treeitem"),
    )
)

MEANT = {
    "a": "link",
    "anchor": "link",
    "box": "checkbox",
    "dropdown": "combobox",
    "edit": "textbox",
    "field": "textbox",
    "footer": "contentinfo",
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6", "headline"), "heading"),
    "header": "banner",
    "input": "textbox",
    "li": "listitem",
    "modal": "dialog",
    "nav": "navigation",
    "p": "paragraph",
    "password": "textbox",
    "picture": "img",
    "popup": "dialog",
    "select": "combobox",
    "submit": "button",
    "td": "cell",
    "textarea": "textbox",
    "textfield": "textbox",
    "th": "columnheader",
    "toggle": "switch",
    "tr": "row",
    "ul": "list",
}
"""Tags, and words for how things look."""
