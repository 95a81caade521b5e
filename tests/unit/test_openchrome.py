"""Compiled plans of openchrome become plans of Recoup, and nothing of them is dropped in silence."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.documents.openchrome import Translation, translate
from recoup.documents.openchrome_names import NotTurned, filled, names_a_secret
from recoup.documents.openchrome_tools import BROWSER_TOOLS, PAGE_TOOLS, TOOLS
from recoup.documents.plan_yaml import plan_text
from recoup.documents.yaml_tree import parse_tree
from recoup.errors import InvalidPlan
from recoup.kernel.template import substitute
from recoup.model.policy import Policy

CURL = 'curl --fail --silent --show-error --location --globoff --proto =http,https -- "$URL"'


def step(tool: str, args: dict[str, Any] | None = None, order: int = 1, **more: Any) -> dict[str, Any]:
    return {"order": order, "tool": tool, "args": args or {}, "timeout": 5000, **more}


def bash(command: str, order: int = 1, **more: Any) -> dict[str, Any]:
    return step("bash", {"command": command}, order, **more)


def stores(name: str, field: str | None = None, way: str = "json") -> dict[str, Any]:
    parse = {"format": way, "storeAs": name}
    return {"parseResult": {**parse, "extractField": field} if field else parse}


def compiled(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "shop", "version": "1.0.0", "description": "Look at the shop", "steps": list(steps), **more}


def turned(plan: Any, **more: Any) -> Translation:
    """Whatever comes out is a plan that can be read."""
    translation = translate(json.dumps(plan), "plan.json", **more)
    checked = translation.checked()
    assert [one.id for one in checked.steps] == [one["id"] for one in translation.plan["steps"]]
    return translation


def steps_of(plan: Any) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = turned(plan).plan["steps"]
    return steps


def only_step(plan: Any) -> dict[str, Any]:
    (one,) = steps_of(plan)
    return one


def reasons(plan: Any) -> dict[str, str]:
    return {remark.where: remark.reason for remark in turned(plan).not_turned}


def notes(plan: Any) -> dict[str, str]:
    return {remark.where: remark.reason for remark in turned(plan).notes}


# A whole plan

LOGIN = compiled(
    step("read_page", {"tabId": "${tabId}", "mode": "dom"}, 1, **stores("page")),
    step("fill_form", {"ref": "${page.form.ref}", "value": "${email} ${password}"}, 2),
    step("http_fetch", {"url": "https://shop.test/${email}"}, 3, **stores("rows", "rows")),
    bash("./book.sh '${rows}' ${rows[0].id}\necho booked", 4),
    parameters={"email": {"source": "runtime"}, "password": {"source": "runtime"}, "limit": {"default": 5}},
    errorHandlers=[
        {"condition": "step1_empty_result", "action": "look again", "steps": [step("page_reload")]},
        {
            "condition": "step3_error",
            "action": "mirror",
            "steps": [step("http_fetch", {"url": "https://mirror.test"}, **stores("rows", "rows"))],
        },
    ],
    successCriteria={"requiredFields": ["rows", "page"]},
)


def test_a_whole_plan_is_turned_step_by_step() -> None:
    translation = turned(LOGIN)
    assert translation.plan == {
        "version": 1,
        "name": "shop",
        "objective": "Look at the shop",
        "inputs": {
            "email": {"required": True},
            "password": {"required": True, "secret": True},
            "limit": {"default": "5"},
        },
        "steps": [
            {
                "id": "step-1-read_page",
                "title": "openchrome step 1 (read_page)",
                "approve": {
                    "message": "openchrome step 1 (tool read_page): do it by hand.\n"
                    'Arguments: {"tabId": "${tabId}", "mode": "dom"}\n'
                    "openchrome gives it 5 s.\n"
                    "It gives `page`.\n"
                    "If it gives nothing (look again): page_reload {}"
                },
            },
            {
                "id": "step-2-fill_form",
                "title": "openchrome step 2 (fill_form)",
                "approve": {
                    "message": "openchrome step 2 (tool fill_form): do it by hand.\n"
                    'Arguments: {"ref": "${page.form.ref}", "value": "${{ inputs.email }} ${password}"}\n'
                    "openchrome gives it 5 s."
                },
            },
            {
                "id": "step-3-http_fetch",
                "title": "openchrome step 3 (http_fetch)",
                "run": f"exec > step-3-http_fetch.json\n{CURL}",
                "env": {"URL": "https://shop.test/${{ inputs.email }}"},
                "timeout": "5s",
                "outputs": {
                    "rows": {"json": "step-3-http_fetch.json", "path": "rows"},
                    "rows_0_id": {"json": "step-3-http_fetch.json", "path": "rows[0].id"},
                },
                "rescue": [
                    {
                        "title": "mirror",
                        "run": f"exec > step-3-http_fetch.json\n{CURL}",
                        "env": {"URL": "https://mirror.test"},
                        "timeout": "5s",
                    }
                ],
            },
            {
                "id": "step-4-bash",
                "title": "openchrome step 4 (bash)",
                "run": "./book.sh '${{ steps.step-3-http_fetch.outputs.rows }}' "
                "${{ steps.step-3-http_fetch.outputs.rows_0_id }}\necho booked",
                "timeout": "5s",
            },
        ],
    }
    assert [remark.where for remark in translation.not_turned] == [
        "steps[0]",
        "errorHandlers[0]",
        "steps[1]",
        "successCriteria.requiredFields[1]",
    ]
    assert [(remark.step, remark.tool) for remark in translation.not_turned[:3]] == [
        (1, "read_page"),
        (1, "read_page"),
        (2, "fill_form"),
    ]


def test_the_file_says_first_what_it_was_made_from_and_what_was_not_turned() -> None:
    lines = turned(LOGIN).text().splitlines()
    assert lines[0] == (
        "# Made by `recoup import openchrome` from plan.json: openchrome's compiled plan `shop`, version 1.0.0."
    )
    assert lines[2] == "# Not turned:"
    assert lines[3] == (
        "#   steps[0] (step 1, read_page): `read_page` drives a browser in a way that cannot be said exactly here"
    )
    body = [line for line in lines if not line.startswith("#")]
    assert body[:3] == ["version: 1", "name: shop", "objective: Look at the shop"]
    assert "        openchrome step 1 (tool read_page): do it by hand." in body


def test_a_plan_that_is_turned_completely_says_so() -> None:
    translation = turned(compiled(bash("true")))
    assert translation.complete
    assert translation.text().startswith("# Made by")
    assert "Not turned" not in translation.text()


# Tools

TURNED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a shell": (bash("make all"), {"run": "make all"}),
    "a pause in milliseconds": (
        step("wait_for", {"type": "timeout", "value": "1500", "tabId": "t"}),
        {"run": "sleep 1.5"},
    ),
    "a pause without a length": (step("wait_for", {"type": "timeout"}), {"run": "sleep 1"}),
    "a pause in seconds": (step("computer", {"action": "wait", "duration": 2}), {"run": "sleep 2"}),
    "a function of Python": (
        step("python", {"code": "print(1)"}),
        {"run": 'python3 -c "$CODE"', "env": {"CODE": "print(1)"}},
    ),
    "a request": (
        step("fetch", {"url": "http://a.test", "method": "get"}),
        {"run": CURL, "env": {"URL": "http://a.test"}},
    ),
    "a visit": (
        step("navigate", {"url": "https://a.test/${n}", "tabId": "t"}),
        {"browser": {"goto": "https://a.test/${{ inputs.n }}"}, "run": None},
    ),
    "a visit without a scheme": (
        step("navigate", {"url": "a.test:8000"}),
        {"browser": {"goto": "https://a.test:8000"}},
    ),
    "a handover": (
        step("oc_handoff_start", {"reason": "Solve the captcha", "resume_hint": "Then go on"}),
        {"approve": {"message": "Solve the captcha\nThen go on"}},
    ),
}


@pytest.mark.parametrize("case", TURNED)
def test_what_says_exactly_what_it_does_has_an_equivalent(case: str) -> None:
    given_step, wanted = TURNED[case]
    translation = turned(compiled(given_step, parameters={"n": {}}))
    assert translation.complete
    (one,) = translation.plan["steps"]
    assert {key: one.get(key) for key in wanted} == wanted


NOT_TURNED = {
    "a browser's tool": (step("interact", {"query": "the login button"}), "drives a browser"),
    "a way back": (step("navigate", {"url": "back"}), "depends on where the browser has been"),
    "an address that is none": (step("navigate", {"url": "javascript:x"}), "is no address of a page"),
    "a page that nobody opened": (step("wait_for", {"type": "selector", "value": "a"}), "no page is open"),
    "a condition of a page": (step("wait_for", {"type": "function", "value": "a"}), "watches a page"),
    "a result of a visit": (step("navigate", {"url": "a.test"}, **stores("page")), "nothing here gives"),
    "a click": (step("computer", {"action": "left_click"}), "drives a browser"),
    "an unknown tool": (step("mock_tool"), "no tool that is known"),
    "another method": (step("fetch", {"url": "x", "method": "POST"}), "only GET"),
    "an argument too many": (step("fetch", {"url": "x", "headers": {}}), "`headers`"),
    "no command": (step("bash", {"command": " "}), "no `command`"),
    "no text": (step("bash", {"command": 5}), "no `command`"),
    "a pause of an hour": (step("wait_for", {"type": "timeout", "value": 3_600_000}), "up to a minute"),
    "a pause of no length": (step("wait_for", {"type": "timeout", "value": "soon"}), "up to a minute"),
    "code made of data": (step("python", {"code": "print(${n})"}), "make code of data"),
    "a result that nobody gives": (
        step("wait_for", {"type": "timeout"}, **stores("waited")),
        "nothing here gives",
    ),
    "a field that is no path": (bash("true", **stores("a", "b..c")), "no way to a value"),
    "an endless text": (bash("true " * 30_000), "131,071 bytes"),
    "a part of a parameter": (bash("echo ${n.part}"), "an input is one text"),
    "a backslash before a name": (bash("echo \\${n}"), "a backslash"),
    "a reference where no value may stand": (bash("cat <<'${n}'\nx\n${n}"), "cannot be filled in"),
}


@pytest.mark.parametrize("case", NOT_TURNED)
def test_what_cannot_be_turned_is_named_and_left_to_a_person(case: str) -> None:
    given_step, word = NOT_TURNED[case]
    translation = turned(compiled(given_step, parameters={"n": {}}))
    assert [remark.where for remark in translation.not_turned] == ["steps[0]"]
    assert word in translation.not_turned[0].reason
    message = translation.plan["steps"][0]["approve"]["message"]
    assert message.startswith(f"openchrome step 1 (tool {given_step['tool']}): do it by hand.")
    assert len(message) <= 4000


VISIT = step("navigate", {"url": "https://a.test"})


@pytest.mark.parametrize(
    ("args", "action"),
    [
        ({"type": "selector", "value": "#a", "timeout": 5}, {"wait": {"css": "#a"}}),
        ({"type": "selector_hidden", "value": "#a"}, {"wait": {"css": "#a", "hidden": True}}),
    ],
)
def test_a_page_that_was_opened_can_be_waited_for(args: dict[str, Any], action: dict[str, Any]) -> None:
    plan = compiled(VISIT, step("wait_for", args, 2), step("computer", {"action": "key", "text": "Enter"}, 3))
    translation = turned(plan)
    assert translation.complete
    assert [one["browser"] for one in translation.plan["steps"]] == [
        {"goto": "https://a.test"},
        action,
        {"press": "Enter"},
    ]
    assert [note.where for note in translation.notes if "timeout" in note.where] == (
        ["steps[1].args.timeout"] if "timeout" in args else []
    )


def test_what_is_done_in_a_browser_is_all_done_by_one() -> None:
    plan = compiled(VISIT, bash("true", 2), step("interact", {"query": "Log in"}, 3))
    steps = steps_of(plan)
    assert [next(key for key in ("run", "approve", "browser") if key in one) for one in steps] == [
        "approve",
        "run",
        "approve",
    ]
    assert reasons(plan)["steps[0]"].startswith("step 3 (`interact`) is left to a person")


def test_a_handler_may_open_a_page() -> None:
    plan = compiled(bash("x"), errorHandlers=[handler("step1_error", VISIT)])
    assert [one["browser"] for one in only_step(plan)["rescue"]] == [{"goto": "https://a.test"}]
    kept = compiled(bash("x", **stores("a")), errorHandlers=[handler("step1_error", VISIT)])
    assert "cannot leave the result" in str(reasons(kept))


def test_a_secret_in_an_address_is_left_to_a_person() -> None:
    plan = compiled(step("navigate", {"url": "https://a.test/?key=${apiKey}"}), parameters={"apiKey": {}})
    assert "holds a secret" in reasons(plan)["steps[0]"]


def test_a_script_that_bash_cannot_read_is_not_turned() -> None:
    translation = turned(compiled(bash("if true")), script_problem=lambda script: f"bad: {script}")
    assert translation.not_turned[0].reason == "bash cannot read the script: bad: if true"


def test_no_tool_is_both_turned_and_a_browsers_except_those_with_several_actions() -> None:
    assert BROWSER_TOOLS & TOOLS.keys() == {"computer"}
    assert TOOLS.keys() >= PAGE_TOOLS


# Limits


def test_a_timeout_is_taken_over_and_a_longer_one_allows_silence() -> None:
    one = only_step(compiled(step("bash", {"command": "true"}) | {"timeout": 5_430_500}))
    assert one["timeout"] == one["idle_timeout"] == "1h30m30s500ms"


@pytest.mark.parametrize("timeout", [0, -1, 10**12])
def test_a_timeout_that_is_none_is_named(timeout: int) -> None:
    plan = compiled(bash("true") | {"timeout": timeout})
    assert "timeout" in reasons(plan)["steps[0]"]
    assert "timeout" not in only_step(plan)


def test_a_step_that_is_not_to_be_retried_has_one_attempt() -> None:
    assert only_step(compiled(bash("true", retryOnFail=False)))["max_attempts"] == 1
    assert "max_attempts" not in only_step(compiled(bash("true", retryOnFail=True)))


# Names


def test_parameters_become_inputs_as_openchrome_would_write_them_into_a_text() -> None:
    defaults = {"text": "a b", "number": 1.0, "none": None, "flag": True, "list": [1, {"a": "é"}]}
    plan = compiled(bash("true"), parameters={name: {"default": value} for name, value in defaults.items()})
    assert turned(plan).plan["inputs"] == {
        "text": {"default": "a b"},
        "number": {"default": "1"},
        "none": {"default": "null"},
        "flag": {"default": "true"},
        "list": {"default": '[1,{"a":"é"}]'},
    }


def test_names_that_are_not_allowed_are_changed_and_stay_different() -> None:
    plan = compiled(
        bash("echo ${search query} ${search+query}"), parameters={"search query": {}, "search+query": {}}
    )
    assert only_step(plan)["run"] == "echo ${{ inputs.search_query }} ${{ inputs.search_query-2 }}"
    assert "parameters" in str(notes(plan))


def test_a_name_means_what_was_stored_last() -> None:
    plan = compiled(
        bash("echo ${n}", 1, **stores("n", way="text")),
        bash("echo ${n}", 2, **stores("n", way="text")),
        bash("echo ${n}", 3),
        parameters={"n": {"default": "0"}},
    )
    assert [one["run"] for one in steps_of(plan)] == [
        "echo ${{ inputs.n }}",
        "echo ${{ steps.step-1-bash.outputs.n }}",
        "echo ${{ steps.step-2-bash.outputs.n }}",
    ]


def test_what_a_person_does_gives_nothing_to_later_steps() -> None:
    plan = compiled(step("read_page", order=1, **stores("page")), bash("echo ${page}", 2), bash("true", 3))
    assert reasons(plan)["steps[1]"] == "uses `page`, but step 1, which gives that, is done by hand"
    assert ["approve" in one for one in steps_of(plan)] == [True, True, False]


def test_an_unknown_name_is_left_as_it_stands_and_named_once() -> None:
    plan = compiled(step("fetch", {"url": "http://${host}"}, 1), step("fetch", {"url": "${host}"}, 2))
    assert list(reasons(plan)) == ["steps[0]"]
    assert [one["env"]["URL"] for one in steps_of(plan)] == ["http://${host}", "${host}"]


def test_an_unknown_name_in_a_script_is_the_shells() -> None:
    translation = turned(compiled(bash("echo ${HOME}")))
    assert translation.complete
    assert translation.plan["steps"][0]["run"] == "echo ${HOME}"
    assert "left to the shell" in translation.notes[0].reason


def test_a_text_has_no_parts() -> None:
    plan = compiled(bash("date", 1, **stores("a", way="text")), bash("echo ${a.b}", 2))
    assert "no way to a value" in reasons(plan)["steps[1]"]


def test_a_step_that_is_not_turned_in_the_end_leaves_no_output_behind() -> None:
    plan = compiled(bash("true", 1, **stores("a")), bash("echo ${a.b} \\${a}", 2))
    assert list(steps_of(plan)[0]["outputs"]) == ["a"]


def test_a_parameter_that_sounds_like_a_secret_is_one_and_is_shown_to_nobody() -> None:
    plan = compiled(
        step("fill_form", {"value": "${apiKey}"}, 1), bash("echo ${apiKey}", 2), parameters={"apiKey": {}}
    )
    assert turned(plan).plan["inputs"] == {"apiKey": {"required": True, "secret": True}}
    assert "${apiKey}" in steps_of(plan)[0]["approve"]["message"]
    assert steps_of(plan)[1]["run"] == "echo ${{ inputs.apiKey }}"


@pytest.mark.parametrize(
    ("name", "secret"),
    [("password", True), ("apiKey", True), ("API_KEY", True), ("authToken", True), ("keyboard", False)],
)
def test_secrets_are_told_by_whole_words(name: str, secret: bool) -> None:
    assert names_a_secret(name) is secret


PIECES = st.sampled_from(["${a}", "${b}", "${c}", "${a.b}", "${{", "}}", "}", "\\", "$", "{", "x", " ", "\n"])


@given(st.lists(PIECES, max_size=12).map("".join))
def test_a_text_means_the_same_in_both(text: str) -> None:
    known = {"a": "inputs.a", "b": "steps.s.outputs.b"}
    try:
        said = filled(text, known.get)
    except NotTurned:
        assert "\\$" in text
        return
    meant = re.sub(r"\$\{([^}]+)\}", lambda m: m[1].upper() if m[1] in known else m[0], text)
    assert substitute(said, {reference: name.upper() for name, reference in known.items()}) == meant


# Results


def test_a_whole_result_is_what_was_printed() -> None:
    for way in ("json", "text"):
        one = only_step(compiled(bash("date", **stores("now", way=way))))
        (output,) = one["outputs"].values()
        assert re2.search(output["regex"], "a\nb\n").group(1) == "a\nb"
        assert re2.search(output["regex"], "").group(1) == ""


@pytest.mark.parametrize("printed", ["", " \n", "null", "[]\n", "{}", "[ ]", "nullable", "a\nb\n"])
def test_what_openchrome_calls_empty_gives_no_value_where_a_handler_waits_for_that(printed: str) -> None:
    handler = {"condition": "step1_empty_result", "action": "x", "steps": [bash("true")]}
    one = only_step(compiled(bash("date"), errorHandlers=[handler]))
    value = re2.search(one["outputs"]["result"]["regex"], printed).group(1)
    assert (not value) is (printed.strip() in ("", "null", "[]", "{}"))


# Handlers


def handler(condition: str, *steps: dict[str, Any], action: str = "help") -> dict[str, Any]:
    return {"condition": condition, "action": action, "steps": list(steps)}


def test_handlers_become_rescue_and_on_empty_of_their_step() -> None:
    plan = compiled(
        bash("first", 10),
        bash("second", 20),
        errorHandlers=[
            handler("step20_error", bash("a"), bash("b")),
            handler("step10_empty_result", bash("c")),
        ],
    )
    first, second = steps_of(plan)
    assert [one["run"] for one in second["rescue"]] == ["a", "b"]
    assert [one["run"] for one in first["on_empty"]] == ["c"]
    assert first["on_empty"][0]["title"] == "help"
    assert turned(plan).complete


def test_the_first_handler_of_a_condition_is_taken_and_the_others_are_named() -> None:
    plan = compiled(
        bash("x"),
        errorHandlers=[
            handler("step1_error", bash("a")),
            handler("step1_error", bash("b")),
            handler("step7_error", bash("c")),
            handler("sometimes", bash("d")),
        ],
    )
    assert [one["run"] for one in only_step(plan)["rescue"]] == ["a"]
    found = reasons(plan)
    assert "takes instead" in found["errorHandlers[1]"]
    assert "does not have" in found["errorHandlers[2]"]
    assert "no condition" in found["errorHandlers[3]"]


def test_a_handler_that_cannot_be_turned_is_named_and_its_neighbours_stay() -> None:
    person = step("oc_handoff_start", {"reason": "help"})
    plan = compiled(bash("x"), errorHandlers=[handler("step1_error", step("navigate"), person, bash("a"))])
    assert [one["run"] for one in only_step(plan)["rescue"]] == ["a"]
    assert list(reasons(plan)) == ["errorHandlers[0].steps[0]", "errorHandlers[0].steps[1]"]


def test_a_handler_without_steps_lets_the_run_go_on() -> None:
    plan = compiled(bash("x"), errorHandlers=[handler("step1_error", action="ignore")])
    assert only_step(plan)["rescue"] == [{"title": "ignore", "run": "true"}]


def test_handlers_beyond_the_limit_are_named() -> None:
    plan = compiled(
        bash("x"), errorHandlers=[handler("step1_error", *[bash(f"echo {n}") for n in range(22)])]
    )
    assert len(only_step(plan)["rescue"]) == 20
    assert list(reasons(plan)) == ["errorHandlers[0].steps[20]", "errorHandlers[0].steps[21]"]


def test_what_a_handler_prints_is_not_taken_for_what_the_step_gives() -> None:
    rescue = handler("step1_error", bash("./tell.sh"), bash("./again.sh", **stores("a", way="text")))
    text = only_step(compiled(bash("x", **stores("a", way="text")), errorHandlers=[rescue]))
    assert [one["run"] for one in text["rescue"]] == [
        "rm -f step-1-bash.txt\nexec >&2\n./tell.sh",
        "exec > step-1-bash.txt\n./again.sh",
    ]
    part = only_step(
        compiled(bash("x", **stores("a", "b")), errorHandlers=[handler("step1_error", bash("./tell.sh"))])
    )
    assert part["rescue"][0]["run"] == "rm -f step-1-bash.json\nexec >&2\n./tell.sh"


def test_what_a_handler_gave_is_not_lost_when_the_next_one_speaks() -> None:
    rescue = handler("step1_error", bash("./again.sh", **stores("a", way="text")), bash("./tell.sh"))
    one = only_step(compiled(bash("x", **stores("a", way="text")), errorHandlers=[rescue]))
    assert one["rescue"][1]["run"] == "exec >&2\n./tell.sh"
    assert one["outputs"]["a"]["file"] == "step-1-bash.txt"


def test_a_handler_cannot_use_what_an_earlier_one_stored() -> None:
    rescue = handler("step1_error", bash("./a.sh", **stores("a")), bash("./b.sh ${a.id}"))
    plan = compiled(bash("x", **stores("a")), errorHandlers=[rescue], parameters={"a": {"default": "old"}})
    assert reasons(plan)["errorHandlers[0].steps[1]"].startswith("uses `a.id`, which an earlier step")


def test_what_only_a_handler_stores_is_not_known_later() -> None:
    plan = compiled(
        bash("x", 1),
        bash("echo ${debug}", 2),
        errorHandlers=[handler("step1_error", bash("y", **stores("debug")))],
    )
    assert "stores nothing of its own" in reasons(plan)["errorHandlers[0].steps[0]"]
    assert reasons(plan)["steps[1]"] == "uses `debug`, but only a handler of step 1 stores that"


# Success criteria


def test_a_least_number_of_items_is_a_check_of_the_last_step() -> None:
    plan = compiled(
        bash("./rows.sh", 1, **stores("rows", "data.rows")),
        bash("true", 2),
        successCriteria={"minDataItems": 3},
    )
    assert steps_of(plan)[1]["expect"] == [{"json": "step-1-bash.json", "path": "data.rows[2]"}]
    whole = compiled(bash("./rows.sh", **stores("rows")), successCriteria={"minDataItems": 1})
    assert only_step(whole)["expect"] == [{"json": "step-1-bash.json", "path": "[0]"}]
    assert turned(plan).complete


def test_what_is_counted_is_what_was_stored_last() -> None:
    steps = [bash("./rows.sh", 1, **stores("rows")), step("read_page", order=2, **stores("rows"))]
    assert "cannot be told" in str(reasons(compiled(*steps, successCriteria={"minDataItems": 1})))
    plan = compiled(*reversed(steps), successCriteria={"minDataItems": 1})
    assert steps_of(plan)[1]["expect"] == [{"json": "step-1-bash.json", "path": "[0]"}]


def test_a_count_before_a_gate_is_checked_where_the_items_come_from() -> None:
    steps = [bash("./rows.sh", 1, **stores("rows")), step("navigate", order=2)]
    plan = compiled(*steps, successCriteria={"minDataItems": 2})
    assert steps_of(plan)[0]["expect"] == [{"json": "step-1-bash.json", "path": "[1]"}]
    empty = {"errorHandlers": [handler("step1_empty_result", bash("true"))]}
    assert "may find none" in str(reasons({**plan, **empty}))


CRITERIA: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "nothing asked for": ({"minDataItems": 0}, {}, None),
    "a default that is long enough": ({"minDataItems": 2}, {"list": {"default": [1, 2]}}, None),
    "a default that is too short": ({"minDataItems": 3}, {"list": {"default": [1, 2]}}, "never holds"),
    "nothing to count": ({"minDataItems": 1}, {}, "cannot be told"),
    "a parameter": ({"requiredFields": ["n"]}, {"n": {}}, None),
    "a field that nobody gives": ({"requiredFields": ["n"]}, {}, "no step gives"),
    "JavaScript": ({"customCheck": "a > b"}, {}, "JavaScript"),
    "something new": ({"maxDataItems": 3}, {}, "not known here"),
}


@pytest.mark.parametrize("case", CRITERIA)
def test_success_criteria_are_said_or_named(case: str) -> None:
    criteria, parameters, word = CRITERIA[case]
    plan = compiled(bash("true"), successCriteria=criteria, parameters=parameters)
    (key,) = criteria
    found = [reason for where, reason in reasons(plan).items() if where.startswith(f"successCriteria.{key}")]
    assert [word in reason for reason in found] == [True] if word else found == []


# Unknown keys


def test_every_unknown_key_is_named() -> None:
    plan = compiled(
        {**bash("true"), "retries": 5, "parseResult": {"format": "text", "trim": True}},
        parameters={"n": {"default": 1, "type": "int"}},
        errorHandlers=[{**handler("step1_error", bash("true")), "limit": 1}],
        allowedTools=["bash"],
        finalVerification={"finalAssertions": []},
        author="x",
    )
    assert set(reasons(plan)) == {
        "steps[0].retries",
        "steps[0].parseResult.trim",
        "parameters.n.type",
        "errorHandlers[0].limit",
        "allowedTools",
        "finalVerification",
        "author",
    }


def test_a_step_without_an_order_counts_by_its_place() -> None:
    first = bash("a")
    del first["order"]
    plan = compiled(first, errorHandlers=[handler("step1_error", bash("b"))])
    assert only_step(plan)["rescue"][0]["run"] == "b"
    assert "no order" in notes(plan)["steps[0]"]


# Bad input

BAD = {
    "no JSON": ("version: 1", "not JSON"),
    "nothing": ("", "not JSON"),
    "half": ('{"steps": [', "not JSON"),
    "a list": ("[]", "not a compiled plan"),
    "a text": ('"plan"', "not a compiled plan"),
    "null": ("null", "not a compiled plan"),
    "another object": ('{"id": "x"}', "not a compiled plan"),
    "a registry": ('{"version": "1.0.0", "plans": []}', "registry"),
    "a plan of Recoup": ('{"version": 1, "name": "x", "steps": [{"run": "x"}]}', "Recoup already"),
    "no steps": ('{"id": "x", "steps": []}', "without steps"),
    "too many steps": (json.dumps({"steps": [{"tool": "a"}] * 1001}), "1,001 steps"),
    "a step that is none": ('{"steps": [{"tool": "a"}, 5]}', "must be an object"),
    "a step without a tool": ('{"steps": [{"tool": "a"}, {"args": {}}]}', "names no tool"),
    "an order that is text": ('{"steps": [{"tool": "a", "order": "1"}]}', "whole number"),
    "an order without end": ('{"steps": [{"tool": "a", "order": 123456789}]}', "at most"),
    "an order that is true": ('{"steps": [{"tool": "a", "order": true}]}', "whole number"),
    "arguments in a list": ('{"steps": [{"tool": "a", "args": []}]}', "must be an object"),
    "an unknown format": ('{"steps": [{"tool": "a", "parseResult": {"format": "xml"}}]}', "`json` or `text`"),
    "handlers by name": ('{"steps": [{"tool": "a"}], "errorHandlers": {}}', "must be a list"),
    "a parameter that is text": ('{"steps": [{"tool": "a"}], "parameters": {"n": "x"}}', "an object"),
    "a key twice": ('{"steps": [{"tool": "a", "tool": "b"}]}', "stands twice"),
    "no number": ('{"steps": [{"tool": "a", "timeout": NaN}]}', "NaN"),
    "a huge number": ('{"steps": [{"tool": "a", "timeout": 1e999}]}', "too large"),
    "a NUL": ('{"steps": [{"tool": "a\\u0000"}]}', "NUL"),
    "half of a pair": ('{"steps": [{"tool": "\\ud800"}]}', "surrogate"),
    "too deep": ('{"steps": ' + "[" * 100_000, "nested too deeply"),
    "rather deep": ('{"steps": [{"tool": "a", "args": ' + '{"a":' * 99 + "1" + "}" * 99 + "}]}", "64 levels"),
    "a number without an end": ('{"steps": [{"tool": "a", "timeout": ' + "9" * 5000 + "}]}", "digits"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_compiled_plan_is_refused_with_its_reason(case: str) -> None:
    text, word = BAD[case]
    with pytest.raises(InvalidPlan) as caught:
        translate(text, "plan.json")
    assert word in caught.value.message
    assert len(caught.value.message) < 1000


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(InvalidPlan) as caught:
        turned(
            {"steps": [{"tool": "a", "args": 5}, {"order": 2}], "successCriteria": {"requiredFields": [1]}}
        )
    assert [problem.where for problem in caught.value.problems] == [
        "steps[0].args",
        "steps[1]",
        "successCriteria.requiredFields[0]",
    ]


def test_a_plan_that_grows_beyond_the_limit_is_refused() -> None:
    plan = compiled(*[step("interact", {"query": "x" * 900}, n) for n in range(1, 50)])
    with pytest.raises(InvalidPlan, match="larger than"):
        translate(json.dumps(plan), "plan.json").checked(Policy(plan_bytes_max=50_000))


def test_names_that_are_never_closed_take_no_longer() -> None:
    turned(compiled(step("navigate", {"url": "${" * 500_000}), bash("true")))


# Anything at all

TEXTS = st.lists(
    st.one_of(
        PIECES, st.sampled_from(["'", '"', "`", "$(", "<<E\n", "#", "a.b", "é", "\x85", "\u2028", "😀"])
    ),
    max_size=6,
).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["a", "b", "a.b", "x y", "token", ""])
PARSING = st.fixed_dictionaries(
    {},
    optional={"format": st.sampled_from(["json", "text"]), "storeAs": NAMES, "extractField": NAMES | TEXTS},
)
STEPS = st.fixed_dictionaries(
    {
        "tool": st.sampled_from([*sorted(TOOLS), "x ${{ y", "é"]),
        "args": st.dictionaries(
            st.sampled_from(["command", "url", "code", "type", "value", "reason", "action", "text", "tabId"]),
            TEXTS
            | st.sampled_from(["timeout", "wait", "selector", "key", "Enter", "https://a.test", 5])
            | JSON,
            max_size=3,
        ),
    },
    optional={
        "order": st.integers(-1, 3),
        "timeout": st.integers(-1, 10**10) | st.floats(0, 10**7),
        "retryOnFail": st.booleans(),
        "parseResult": PARSING,
    },
)
PLANS = st.fixed_dictionaries(
    {"steps": st.lists(STEPS, min_size=1, max_size=4)},
    optional={
        "id": TEXTS,
        "version": TEXTS,
        "description": TEXTS,
        "parameters": st.dictionaries(
            NAMES | TEXTS, st.fixed_dictionaries({}, optional={"default": JSON, "source": TEXTS}), max_size=3
        ),
        "errorHandlers": st.lists(
            st.fixed_dictionaries(
                {
                    "condition": st.sampled_from(["step1_error", "step1_empty_result", "step2_error", "x"]),
                    "action": TEXTS,
                    "steps": st.lists(STEPS, max_size=2),
                }
            ),
            max_size=3,
        ),
        "successCriteria": st.fixed_dictionaries(
            {},
            optional={
                "minDataItems": st.integers(-1, 3),
                "requiredFields": st.lists(NAMES, max_size=2),
                "customCheck": TEXTS,
            },
        ),
        "more": JSON,
    },
)


@settings(max_examples=80, deadline=None)
@given(PLANS)
def test_every_plan_keeps_its_steps_and_can_be_read(plan: dict[str, Any]) -> None:
    translation = turned(plan)
    assert len(translation.plan["steps"]) == len(plan["steps"])
    by_hand = sum(1 for one in translation.plan["steps"] if "do it by hand" in str(one.get("approve")))
    assert by_hand <= len({remark.where for remark in translation.not_turned})


@settings(max_examples=60, deadline=None)
@given(
    JSON
    | st.fixed_dictionaries({"steps": st.lists(JSON, max_size=3)})
    | st.fixed_dictionaries({"steps": JSON})
)
def test_any_json_is_a_plan_or_is_refused(data: Any) -> None:
    with contextlib.suppress(InvalidPlan):
        assert turned(data).plan["steps"]


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=2), max_size=3))
def test_what_is_written_is_read_again(data: dict[str, Any]) -> None:
    assert parse_tree(plan_text({"first": "a", **data}, ["a comment\n: [", *data])).data == {
        "first": "a",
        **data,
    }
