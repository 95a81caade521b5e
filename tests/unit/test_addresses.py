"""What values may do to the addresses and paths that a plan writes."""

from __future__ import annotations

import pytest

from recoup.kernel.addresses import address_problem, path_problem

_INPUT = "${{ inputs.x }}"


def _address(written: str, value: str) -> str:
    return address_problem(written, written.replace(_INPUT, value))


def _path(written: str, value: str) -> str:
    return path_problem(written, written.replace(_INPUT, value))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (_INPUT, "https://example.org/a"),
        (_INPUT, "HTTP://example.org"),
        (_INPUT, "about:blank"),
        (f"https://example.org/{_INPUT}", "../a?to=file:///etc/passwd"),
        (f"file:///srv/pages/{_INPUT}.html", "july"),
        (f"file:///srv/../pages/{_INPUT}", "a/b.html"),
        ("file:///etc/hostname", ""),
        ("data:text/html,hello", ""),
        ("data:text/html,\\${{ inputs.x }}", ""),
    ],
)
def test_a_value_may_name_a_page_of_the_web_or_below_the_plans_own_folder(written: str, value: str) -> None:
    assert _address(written, value) == ""


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *(
            (_INPUT, value)
            for value in (
                "file:///etc/passwd",
                " \tfile:///etc/passwd",
                "fi\nle:///etc/passwd",
                "FILE:/etc/passwd",
                "view-source:file:///etc/passwd",
                "chrome://version",
                "javascript:alert(1)",
                "data:text/html,x",
                "blob:https://example.org/1",
                "filesystem:https://example.org/temporary/x",
                "about:config",
                "/etc/passwd",
                "",
                "http://[",
            )
        ),
        (f"file{_INPUT}", ":///etc/passwd"),
        (f"f{_INPUT}", "ile:///etc/passwd"),
        *(
            (f"file:///srv/pages/{_INPUT}", value)
            for value in ("../../etc/passwd", "%2e%2E/secret", "..\\secret", ".%2e%5csecret", "a/../../x")
        ),
        (f"file:///srv/pages/.{_INPUT}", "./secret"),
    ],
)
def test_a_value_leads_to_no_other_scheme_and_no_other_folder(written: str, value: str) -> None:
    assert "only the plan's own text may" in _address(written, value)


def test_a_value_adds_to_a_path_and_leads_to_no_other_folder() -> None:
    for written, value in (
        (_INPUT, "a/b.pdf"),
        (f"out/{_INPUT}.pdf", "july"),
        (f"/srv/files/{_INPUT}", "a"),
        (f"../shared/{_INPUT}", "a"),
        ("/etc/hostname", ""),
        ("../a", ""),
    ):
        assert _path(written, value) == ""
    for written, value in (
        (_INPUT, "/etc/passwd"),
        (_INPUT, "../secret"),
        (f"out/{_INPUT}", "a/../../../x"),
        (f".{_INPUT}/x", "."),
        (f"/srv/files/{_INPUT}", "../x"),
        (f"../shared/{_INPUT}", "../x"),
    ):
        assert "only the plan's own text may" in _path(written, value)
