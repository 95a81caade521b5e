"""Pages on which INV-10 has no Pay button left, and the only one is in the row of another invoice; and pages on which
words name what the button is in."""

from __future__ import annotations

from typing import Final

PAY: Final = "<button>Pay</button>"
OTHERS: Final = {
    "heading": f"<section><h2>INV-10 was paid</h2><table><tr><td>INV-11</td><td>{PAY}</td></tr></table></section>",
    "article": f"<section><h2>INV-10</h2><p>Paid. Next:</p><article><h3>INV-11</h3>{PAY}</article></section>",
    "nested list": f"<ul><li>INV-10<ul><li>INV-11 {PAY}</li></ul></li></ul>",
    "nested table": f"<table><tr><td>INV-10 <table><tr><td>INV-11</td><td>{PAY}</td></tr></table></td></tr></table>",
    "hidden words": "<table><tr><td>INV-11<span style='display:none'>INV-10</span></td>"
    f"<td>{PAY}</td></tr></table>",
    "legend": "<fieldset><legend>INV-10</legend><table><tr><td>INV-11</td>"
    f"<td>{PAY}</td></tr></table></fieldset>",
    "legend, cards": f"<fieldset><legend>INV-10</legend><div>INV-11 {PAY}</div></fieldset>",
    "caption": f"<section><table><caption>INV-10</caption><tr><td>INV-11</td><td>{PAY}</td></tr></table></section>",
    "rows of divisions": f"<section><div><b>INV-10</b> Paid</div><div><b>INV-11</b> {PAY}</div></section>",
    "rows called rows": "<section><div class='row'><b>INV-10</b> Paid</div>"
    f"<div class='row'><b>INV-11</b> {PAY}</div></section>",
    "one division": f"<section><h2>INV-10</h2>Paid. Next: <div><b>INV-11</b> {PAY}</div></section>",
    "rows in a row": f"<div class='row'><div><b>INV-10</b> Paid</div><div><b>INV-11</b> {PAY}</div></div>",
    "dialog": f"<div role='dialog'><h2>INV-10</h2><ul><li>INV-11 {PAY}</li></ul></div>",
    "form": f"<form><h2>INV-10 is paid</h2><div role='row'>INV-11 {PAY}</div></form>",
    "item of the tree": f"<ul role='tree'><li role='treeitem'>INV-11 {PAY}<ul><li role='treeitem'>INV-10</li></ul></li></ul>",
    "inner list": f"<ul><li>INV-11 {PAY}<ul><li>INV-10</li></ul></li></ul>",
    "inner table": f"<table><tr><td>INV-11 {PAY}<table><tr><td>INV-10</td></tr></table></td></tr></table>",
    "two words": f"<section><h2>Invoice INV-10</h2><div>Invoice INV-11 {PAY}</div></section>",
    "section in section": f"<section><h2>INV-10</h2><section><h3>INV-11</h3>{PAY}</section></section>",
}
"""`inside: INV-10` and `near: INV-10` must choose nothing."""
ORDERS: Final = f"<section><h2>Order 17</h2><div>Order 18 {PAY}</div></section>"
"""The same with `Order 17`, a name of two words."""
NAMELESS: Final = {
    "ann in a heading": f"<section><h2>Ann was paid</h2><table><tr><td>Bob</td><td>{PAY}</td></tr></table></section>",
    "ann above a card": f"<section><h2>Ann</h2><p>Next:</p><article><h3>Bob</h3>{PAY}</article></section>",
    "ann around bob": f"<ul><li>Ann<ul><li>Bob {PAY}</li></ul></li></ul>",
    "ann beside bob": f"<section><div><b>Ann</b> paid</div><div><b>Bob</b> {PAY}</div></section>",
    "bob around ann": f"<ul><li>Bob {PAY}<ul><li>Ann</li></ul></li></ul>",
}
"""The same with names that have no digits: `inside: Ann`."""
OWN: Final = {
    "row": (
        "INV-10",
        f"<table><tr><td>INV-10</td><td>{PAY}</td></tr><tr><td>INV-11</td><td>Paid</td></tr></table>",
    ),
    "only row of a named section": (
        "Invoices",
        f"<section><h2>Invoices</h2><table><tr><td>INV-11</td><td>{PAY}</td></tr></table></section>",
    ),
    "one of the rows of a named section": (
        "Invoices",
        "<section><h2>Invoices (2)</h2><table><tr><td>INV-10</td><td>Paid</td></tr>"
        f"<tr><td>INV-11</td><td>{PAY}</td></tr></table></section>",
    ),
    "caption": (
        "Open invoices",
        "<section><table><caption>Open invoices</caption>"
        f"<tr><td>INV-11</td><td>{PAY}</td></tr></table></section>",
    ),
    "legend": ("Billing", f"<fieldset><legend>Billing</legend><ul><li>By card {PAY}</li></ul></fieldset>"),
    "dialog": (
        "Pay now?",
        f"<div role='dialog'><h2>Pay now?</h2><ul><li>{PAY}</li><li><button>Cancel</button></li></ul></div>",
    ),
    "form": ("Your order", f"<form><h2>Your order</h2><ul><li>Lamp, 20 EUR {PAY}</li></ul></form>"),
    "no rows": ("Order 17", f"<section><h2>Order 17</h2><div>Total 20 EUR {PAY}</div></section>"),
    "part of a heading": (
        "INV-10",
        f"<section><h2>Invoice INV-10 is due</h2><p>20 EUR</p><div>{PAY}</div></section>",
    ),
    "card of parts": (
        "INV-10",
        f"<article><div>INV-10</div><div>20 EUR {PAY}</div></article><article><div>INV-11</div><div>Paid</div></article>",
    ),
    "item of parts": (
        "Ann",
        f"<ul><li><div>Ann</div><div>20 EUR {PAY}</div></li><li><div>Bob</div><div>Paid</div></li></ul>",
    ),
    "section as a card": (
        "INV-10",
        f"<section><div><b>INV-10</b></div><div><b>20 EUR</b> {PAY}</div></section>"
        "<section><div><b>INV-11</b></div><div><b>30 EUR</b> Paid</div></section>",
    ),
    "buttons in a list": (
        "INV-10",
        f"<table><tr><td>INV-10</td><td><ul><li>{PAY}</li><li><button>Refuse</button></li></ul></td></tr>"
        "<tr><td>INV-11</td><td>Paid</td></tr></table>",
    ),
    "tag in a row": (
        "Urgent",
        f"<table><tr><td>INV-10 <ul><li>Urgent</li><li>New</li></ul></td><td>{PAY}</td></tr>"
        "<tr><td>INV-11</td><td>Paid</td></tr></table>",
    ),
    "button that says it": (
        "INV-10",
        "<section><h2>Due</h2><ul><li>Today <button aria-label='Pay'>Pay INV-10</button></li></ul></section>",
    ),
    "inner item": ("INV-11", f"<ul><li>INV-10 <ul><li>INV-11 {PAY}</li></ul></li></ul>"),
    "around an inner item": ("INV-10", f"<ul><li>INV-10 {PAY}<ul><li>INV-11</li></ul></li></ul>"),
}
"""The words and the page: `inside` these words the button is meant."""
FIELDS: Final = {
    "items": (
        "Shipping",
        "<form><h2>Shipping address</h2><ul><li><label>Name <input></label></li></ul></form>",
    ),
    "divisions with hints": (
        "Edit INV-10",
        "<div role='dialog'><h2>Edit INV-10</h2><div><label>Name <input></label><p>At most 30 letters</p></div>"
        "<div><label>City <input></label><p>At most 20 letters</p></div></div>",
    ),
    "layout table": (
        "Order 17",
        "<fieldset><legend>Order 17</legend><table><tr><td><label>Name <input></label></td></tr></table></fieldset>",
    ),
}
"""Fields called Name, in parts of a form that say nothing else, or only a hint."""
