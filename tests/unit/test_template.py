"""Filling values into plans: always data, never code."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recoup.kernel.quoting import Context, quoting
from recoup.kernel.template import (
    Reference,
    TemplateError,
    check_condition,
    holds,
    references,
    shell_script,
    substitute,
    substitute_shell,
    substitute_value,
    texts_in,
)

SCOPE: dict[str, Any] = {
    "inputs.customer": "ACME",
    "inputs.month": "2026-11",
    "inputs.empty": "",
    "inputs.evil": "$(touch pwned)",
    "run.id": "r-1",
    "steps.fetch.outputs.count": 3,
    "steps.fetch.outputs.ok": True,
    "steps.fetch.outputs.none": None,
    "steps.fetch.outputs.items": ["a", {"b": 1.0}],
    "steps.tpl:x:1.0.outputs.y": "colon",
}


# References


def test_references_are_found_in_order_with_their_parts() -> None:
    text = "a ${{inputs.customer}} ${{  steps.fetch.outputs.count  }} ${{ run.id }}"
    assert references(text) == (
        Reference("inputs.customer", "inputs", "customer", None, 2, 22),
        Reference("steps.fetch.outputs.count", "steps", "count", "fetch", 23, 57),
        Reference("run.id", "run", "id", None, 58, 71),
    )


def test_a_step_id_may_hold_dots_and_colons() -> None:
    (reference,) = references("${{ steps.tpl:x:1.0.outputs.y }}")
    assert (reference.step_id, reference.field) == ("tpl:x:1.0", "y")
    assert substitute("<${{ steps.tpl:x:1.0.outputs.y }}>", SCOPE) == "<colon>"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${{ inputs.customer", "line 1, column 1: `${{` is not closed"),
        ("ok\n  ${{ customer }}", "line 2, column 3: `customer` is not a reference"),
        ("${{ }}", "is not a reference"),
        ("${{ inputs. }}", "is not a reference"),
        ("${{ inputs.a.b }}", "is not a reference"),
        ("${{ env.HOME }}", "is not a reference"),
        ("${{ run.secret }}", "is not a reference"),
        ("${{ steps.a.b }}", "is not a reference"),
        ("${{ inputs.a == 'x' }}", "write inputs.NAME"),
        ("${{ inputs.${{ inputs.a }} }}", "is not a reference"),
    ],
)
def test_a_reference_that_is_not_well_formed_is_refused_with_its_place(text: str, words: str) -> None:
    for reading in (
        lambda: references(text),
        lambda: substitute(text, SCOPE),
        lambda: substitute_shell(text, SCOPE),
    ):
        with pytest.raises(TemplateError) as refused:
            reading()
        assert words in str(refused.value)


def test_a_name_without_a_value_is_refused_with_the_names_that_have_one() -> None:
    with pytest.raises(TemplateError) as refused:
        substitute("x ${{ inputs.costumer }}", {"inputs.customer": "ACME"})
    assert str(refused.value) == (
        "line 1, column 3: inputs.costumer has no value here; known are: inputs.customer"
    )
    with pytest.raises(TemplateError, match="and 5 more"):
        substitute("${{ inputs.x }}", {f"inputs.n{i}": "" for i in range(15)})


# Text


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("no reference at $all {{ }}", "no reference at $all {{ }}"),
        ("for ${{ inputs.customer }}, ${{ inputs.month }}.", "for ACME, 2026-11."),
        ("${{ steps.fetch.outputs.count }}|${{ steps.fetch.outputs.ok }}", "3|true"),
        ("${{ steps.fetch.outputs.none }}${{ inputs.empty }}", "null"),
        ("${{ steps.fetch.outputs.items }}", '["a",{"b":1}]'),
        ("${{ inputs.evil }}", "$(touch pwned)"),
        (r"write \${{ inputs.customer }}", "write ${{ inputs.customer }}"),
        (r"path\\${{ inputs.customer }}", r"path\\ACME"),
        (r"\\\${{ x }}", r"\\${{ x }}"),
    ],
)
def test_references_in_text_are_replaced(text: str, filled: str) -> None:
    assert substitute(text, SCOPE) == filled


@given(st.text(), st.text())
def test_a_value_is_never_looked_into(before: str, value: str) -> None:
    value = value.replace("\0", "") + "${{ inputs.other }}"
    text = before.replace("${{", "").rstrip("\\$") + "|${{ inputs.x }}|"
    assert substitute(text, {"inputs.x": value}) == text.replace("${{ inputs.x }}", value)


@pytest.mark.parametrize("fill", [substitute, substitute_shell])
def test_what_no_command_can_be_given_is_refused(fill: Any) -> None:
    with pytest.raises(TemplateError, match=r"inputs\.x holds a NUL"):
        fill("echo ${{ inputs.x }}", {"inputs.x": "a\0b"})
    with pytest.raises(TemplateError, match=r"inputs\.x: canonical JSON"):
        fill("echo ${{ inputs.x }}", {"inputs.x": float("nan")})


# Scripts, run by a real bash

X = "${{ inputs.x }}"
READ = "IFS= read -r -d '' v"
PRINTS = {
    "bare": f"printf %s {X}",
    "one word with what is beside it": f'v=a{X}b; v=${{v#a}}; printf %s "${{v%b}}"',
    "double quotes": f'printf %s "{X}"',
    "single quotes": f"printf %s '{X}'",
    "ansi-c quotes": f"printf %s $'{X}'",
    "locale quotes": f'printf %s $"{X}"',
    "after other quotes": f"""v="it's"'"'$'\\''{X}; printf %s "${{v:6}}" """,
    "assigned": f'v={X}; printf %s "$v"',
    "command substitution": f'v=$(printf %sx {X}); printf %s "${{v%x}}"',
    "quoted substitution in quotes": f'v="$(printf %sx "{X}")"; printf %s "${{v%x}}"',
    "bare substitution in quotes": f'v="a$(printf %sx {X})"; v="${{v#a}}"; printf %s "${{v%x}}"',
    "single quotes in a substitution": f"""v="$(printf %sx '{X}')"; printf %s "${{v%x}}" """,
    "backticks": f'v=`printf %sx {X}`; printf %s "${{v%x}}"',
    "backticks in quotes": f'v="`printf %sx "{X}"`"; printf %s "${{v%x}}"',
    "default word": f"printf %s ${{unset_name:-{X}}}",
    "default word in quotes": f'printf %s "${{unset_name:-{X}}}"',
    "quoted default word in quotes": f'printf %s "${{unset_name:-"{X}"}}"',
    "quoted default word": f'printf %s ${{unset_name:-"{X}"}}',
    "case in a substitution": f'v="$(case a in a) printf %sx {X};; esac)"; printf %s "${{v%x}}"',
    "after a case in a substitution": f'v="$(case a in a) echo;; esac){X}"; printf %s "$v"',
    "subshell": f"( (printf %s {X}) )",
    "function": f"f() {{ printf %s {X}; }}; f",
    "after a comment with a quote": f"# it's a comment {X}\nprintf %s {X}",
    "no comment": f'v=a#{X}; printf %s "${{v#a#}}"',
    "after an escaped quote": f'v=\\\'{X}; printf %s "${{v:1}}"',
    "heredoc": f'{READ} <<EOF || true\n{X}\nEOF\nprintf %s "${{v%?}}"',
    "heredoc with quotes": f"""{READ} <<-END || true\n\t"{X}'\n\tEND\nv=${{v:1}}; printf %s "${{v%??}}" """,
    "here string": f'{READ} <<< "{X}" || true; printf %s "${{v%?}}"',
    "after a heredoc": f": <<'E F'\nit's \"\nE F\nprintf %s {X}",
    "substitution in a heredoc": f'{READ} <<EOF || true\n$(printf %sx "{X}")\nEOF\nprintf %s "${{v%x?}}"',
    "pattern": f'v={X}; [[ "$v" == {X} ]] && printf %s "{X}"',
    "condition": f"if [ {X} = '{X}' ]; then printf %s {X}; fi",
    "loop": f'for v in {X}; do printf %s "$v"; done',
    "array": f'a=({X} "{X}"); printf %s "${{a[1]}}"',
    "process substitution": f'{READ} < <(printf %s {X}) || true; printf %s "$v"',
    "continued line": f"printf \\\n %s \\\n{X}",
}
EVIL = [
    "", " ", "a b", "$(touch pwned)", "`touch pwned`", "'; touch pwned; '", '"; touch pwned; "',
    "; touch pwned", "\ntouch pwned\n", "a\nEOF\ntouch pwned\n", "a[$(touch pwned)]", "EOF", "END", "$HOME",
    "${HOME}", "${x:?boom}", "$'\\n'", "\\", "\\\\", "\\'", "'", '"', "'\"'\"'", "*", "?", "[a-z]", "~",
    "~root", "!!", "!", "#", "a #b", "-n", "-e", "--", "%s%n", "\t", "\r\n", "\x01\x7f\x1b[31m",
    "é 漢字 😀", "\u2028", "}", "{a,b}", "))", ")", "`", "&", "|", "<(x)", "$", "$$", "done", "x=1",
    "true\n", "\n\n", "<<EOF", "esac", "case x in", "\\\n", "${{ inputs.x }}", "0", "-5",
]  # fmt: skip


def run(script: str, folder: Path) -> str:
    # bash itself warns about a locale that is not there; nothing else may be said.
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", script],
        cwd=folder,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        timeout=20,
        check=False,
    )
    assert not (folder / "pwned").exists(), script
    assert done.returncode == 0, (script, done.stderr)
    return done.stdout.decode("utf-8", "surrogateescape")


def all_in_one(value: str, contexts: dict[str, str]) -> str:
    """Every context after the other, an end mark after each."""
    parts = [f"{script}\nprintf '\\0'\n" for script in contexts.values()]
    return substitute_shell("".join(parts), {"inputs.x": value})


def check_all(value: str, folder: Path) -> None:
    *printed, _ = run(all_in_one(value, PRINTS), folder).split("\0")
    wrong = [name for name, text in zip(PRINTS, printed, strict=True) if text != value]
    assert not wrong, (value, wrong)


@pytest.mark.parametrize("value", EVIL)
def test_a_hostile_value_is_printed_as_it_is_from_every_context(value: str, tmp_path: Path) -> None:
    check_all(value, tmp_path)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
    | st.text("'\"\\$`(){}[]#!*?~<>&|; \n\tEOFa", max_size=12)
)
def test_any_value_is_printed_as_it_is_from_every_context(value: str, tmp_path: Path) -> None:
    check_all(value, tmp_path)


@pytest.mark.parametrize("context", PRINTS)
def test_each_context_prints_a_hostile_value_by_itself(context: str, tmp_path: Path) -> None:
    value = 'it\'s a "$(touch pwned)" `x` \\ EOF'
    assert run(substitute_shell(PRINTS[context], {"inputs.x": value}), tmp_path) == value


def test_a_quoted_heredoc_takes_values_as_they_are_unless_they_end_it(tmp_path: Path) -> None:
    script = "cat <<'EOF'\nE${{ inputs.x }}\nEOF\nprintf %s ${{ inputs.x }}"
    value = "it's $(touch pwned)\n`x`"
    assert run(substitute_shell(script, {"inputs.x": value}), tmp_path) == f"E{value}\n{value}"
    for ending in ("OF", "\nEOF", "\nEOF\ntouch pwned\n"):
        with pytest.raises(TemplateError, match="would end the heredoc `EOF`"):
            substitute_shell(script, {"inputs.x": ending})
    with pytest.raises(TemplateError, match="would lose its tabs"):
        substitute_shell("cat <<-'EOF'\n${{ inputs.x }}\nEOF\n", {"inputs.x": "\ta"})


CALCULATES = [
    "echo $(( 1 + ${{ inputs.x }} ))",
    'echo $(( "${{ inputs.x }}" ))',
    "echo $(( (${{ inputs.x }}) * 2 ))",
    "echo $(( ${unset_name:-${{ inputs.x }}} ))",
    "(( v = ${{ inputs.x }} ))",
    "if true; then (( v = ${{ inputs.x }} )); fi",
    "for ((i = 0; i < ${{ inputs.x }}; i++)); do :; done",
    "echo $[ ${{ inputs.x }} ]",
    "a[${{ inputs.x }}]=1",
    'a["${{ inputs.x }}"]=1',
    "a['${{ inputs.x }}']=1",
    "a=(1 2); echo ${a[${{ inputs.x }}]}",
    'a=(1 2); echo "${a["${{ inputs.x }}"]}"',
    "v=abc; echo ${v:${{ inputs.x }}}",
    "v=abc; echo ${v:0:${{ inputs.x }}}",
    "[[ 1 -lt ${{ inputs.x }} ]]",
    '[[ "${{ inputs.x }}" -ge 0 ]]',
    "[[ -v ${{ inputs.x }} ]]",
    'let "v = ${{ inputs.x }}"',
    "declare -i v=${{ inputs.x }}",
    "unset ${{ inputs.x }}",
    "\\read -r ${{ inputs.x }}",
    "builtin printf -v ${{ inputs.x }} a",
]


@pytest.mark.parametrize("script", CALCULATES)
def test_where_bash_calculates_only_whole_numbers_pass(script: str, tmp_path: Path) -> None:
    # A value such as a[$(…)] runs its command wherever bash calculates, whatever quotes are around it.
    for value in ("a[$(touch pwned)]", "v", "1.5", "", "1\n", "12 "):
        with pytest.raises(TemplateError, match=r"only a whole number can be filled in for inputs\.x"):
            substitute_shell(script, {"inputs.x": value})
    filled = substitute_shell(script, {"inputs.x": 1})
    assert "1" in filled
    assert "_recoup" not in filled


def test_a_negative_number_is_still_one_after_a_sign(tmp_path: Path) -> None:
    script = "echo $((5-${{ inputs.x }}))\nv=abc; echo ${v:${{ inputs.x }}}"
    assert run(substitute_shell(script, {"inputs.x": -2}), tmp_path) == "7\nbc\n"


@pytest.mark.parametrize(
    ("script", "filled"),
    [
        ("./fetch.sh ${{ inputs.customer }} -m ${{ inputs.month }}", "./fetch.sh 'ACME' -m '2026-11'"),
        ('echo "for ${{ inputs.customer }}"', 'echo "for ACME"'),
        ("echo ${{ inputs.empty }}", "echo ''"),
        ("echo ${{ inputs.evil }}", "_recoup_1='$(touch pwned)'; echo \"${_recoup_1}\""),
        ("echo $HOME # ${{ inputs.evil }}", "echo $HOME # inputs.evil"),
        ("ls -lt ${{ inputs.customer }} -ge", "ls -lt 'ACME' -ge"),
        ("[ 1 -lt ${{ inputs.customer }} ]", "[ 1 -lt 'ACME' ]"),
        ("[[ 1 -lt 2 ]] && ls -lt ${{ inputs.customer }}", "[[ 1 -lt 2 ]] && ls -lt 'ACME'"),
        ("no reference", "no reference"),
        (
            r"echo \${{ inputs.x }} '\${{ inputs.x }}' \"\${{ x }}\"",
            r"echo \${{ inputs.x }} '${{ inputs.x }}' \"\${{ x }}\"",
        ),
    ],
)
def test_a_filled_script_stays_readable(script: str, filled: str) -> None:
    assert substitute_shell(script, SCOPE) == filled


def test_an_escaped_reference_is_printed_as_it_is(tmp_path: Path) -> None:
    script = r"""printf '%s|' '\${{ x }}' "\${{ x }}" \${{x}} $'\${{ x }}'; cat <<EOF; cat <<'EOF'
\${{ x }}
EOF
\${{ x }}
EOF
"""
    printed = run(substitute_shell(script, {}), tmp_path)
    assert printed == "${{ x }}|${{ x }}|${{x}}|${{ x }}|${{ x }}\n${{ x }}\n"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo $${{ inputs.customer }}", "a `$` stands before the reference"),
        ('echo "cost: $${{ inputs.customer }}"', "a `$` stands before the reference"),
        ("cat <<${{ inputs.customer }}\nx\n", "delimiter of a heredoc cannot be filled in"),
        ("cat <<'E${{ inputs.customer }}'\nx\n", "nothing can be filled in here"),
        ("echo $((echo a) | cat) ${{ inputs.customer }}", "write `( (` with a space"),
        ("echo " + "$(" * 50 + "${{ inputs.customer }}", "nested deeper"),
    ],
)
def test_where_the_meaning_is_not_certain_nothing_is_filled_in(script: str, words: str) -> None:
    with pytest.raises(TemplateError) as refused:
        substitute_shell(script, SCOPE)
    assert words in str(refused.value)


WRITTEN = (
    "echo |' |\"|$'|$\"|`|$(|)|((|))|$((|${v:-|${a[|}|[|]|#|\n|<<EOF|<<'EOF'|<<-EOF|\nEOF\n|\\|;|{|(|[[ |$| "
    "| -eq 1 ]]|case a in a) |;; esac"
)
SNIPPETS = st.lists(st.sampled_from([*WRITTEN.split("|"), "|", X]), max_size=14).map("".join)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=SNIPPETS, value=st.sampled_from([v for v in EVIL if "pwned" in v]))
def test_no_script_however_odd_runs_a_value(script: str, value: str, tmp_path: Path) -> None:
    try:
        filled = substitute_shell(script + X, {"inputs.x": value})
    except TemplateError:
        return
    subprocess.run(
        ["bash", "-c", filled],
        cwd=tmp_path,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=20,
        check=False,
    )
    assert not (tmp_path / "pwned").exists(), (script, filled)


@given(st.lists(st.sampled_from([*"'\"`$(){}[]#<>\n a-", X, X, "<<EOF"]), max_size=40).map("".join))
def test_every_script_is_filled_in_or_refused(script: str) -> None:
    try:
        filled = substitute_shell(script, {"inputs.x": "a b"})
    except TemplateError:
        return
    assert X not in filled


# Conditions


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("true", True), ("yes", True), ("1", True), ("anything", True), ("'false '", False), ("FALSE", False),
        ("false", False), ("0", False), ("no", False), ("null", False), ("''", False), ('""', False),
        ("'  '", False),
        ("${{ inputs.customer }}", True), ("${{ inputs.empty }}", False),
        ("${{ steps.fetch.outputs.ok }}", True), ("not ${{ steps.fetch.outputs.ok }}", False),
        ("${{ steps.fetch.outputs.none }}", False), ("${{ steps.fetch.outputs.count }} == 3", True),
        ("${{ inputs.customer }} == ACME", True), ("${{inputs.customer}}=='ACME'", True),
        ('"${{ inputs.customer }}" != "ACME"', False), ("${{ inputs.empty }} == ''", True),
        ("x${{ inputs.customer }}y == xACMEy", True), ("not a == b", True), ("not not a", True),
        ("false or true", True), ("true and false", False), ("true or true and false", True),
        ("false and true or true", True), ("true and not false", True), ("a == a and b != b or c == c", True),
        ("'and' == and2", False), ("'a and b' == 'a and b'", True), ("  true  ", True),
        ("'()' == '()'", True), ("'it''s'" "", None), ("$x == $x", True),
    ],
)  # fmt: skip
def test_conditions(condition: str, expected: bool | None) -> None:
    if expected is None:
        with pytest.raises(TemplateError):
            holds(condition, SCOPE)
    else:
        check_condition(condition)
        assert holds(condition, SCOPE) is expected


@pytest.mark.parametrize(
    "condition",
    [
        "",
        " ",
        "==",
        "a ==",
        "== a",
        "a == b == c",
        "a b",
        "a and",
        "or a",
        "not",
        "a = b",
        "a AND b",
        "(a)",
        "'a",
        "!a",
        "a or or b",
        "${{ x }}",
        "${{ inputs.a == 'b' }}",
        "a !",
    ],
)
def test_a_condition_that_cannot_be_read_is_refused(condition: str) -> None:
    for reading in (lambda: check_condition(condition), lambda: holds(condition, SCOPE)):
        with pytest.raises(TemplateError, match="line 1, column"):
            reading()


@given(st.text().map(lambda text: text.replace("\0", "")))
def test_no_value_changes_what_a_condition_asks(value: str) -> None:
    scope = {"inputs.x": value}
    assert holds("${{ inputs.x }} == ${{ inputs.x }}", scope)
    assert holds("'${{ inputs.x }}' == ${{ inputs.x }} and not ${{ inputs.x }} != ${{ inputs.x }}", scope)
    assert holds("${{ inputs.x }} == secret", scope) == (value == "secret")


def test_every_number_is_compared_in_its_canonical_form() -> None:
    assert holds("${{ inputs.x }} == 1", {"inputs.x": 1.0})
    assert holds("${{ inputs.x }} == '{\"a\":1}'", {"inputs.x": json.loads('{"a": 1.0}')}) is True


@pytest.mark.parametrize(
    "text",
    ["\\" * 100_000 + X, X * 2_000, "${{" + " " * 100_000 + "}}", "${{ steps." + "a.outputs." * 20_000,
     "'" * 100_000 + X, "$(" * 30 + ")" * 30 + "(" * 100_000 + X, "a[" * 20_000 + X, "-eq " * 20_000 + X,
     "case a in " * 5_000 + X],
    ids=lambda text: text[:10],
)  # fmt: skip
def test_no_text_makes_filling_in_slow(text: str) -> None:
    began = time.process_time()
    for fill in (substitute, substitute_shell):
        try:
            fill(text, {"inputs.x": "a b"})
        except TemplateError:
            continue
    assert time.process_time() - began < 5


def test_a_secret_value_reaches_a_script_through_its_environment_only() -> None:
    secret = 'it\'s; $(touch x) "quoted"'
    script = "printf '%s|' ${{ inputs.pin }} \"${{ inputs.pin }}\" '${{ inputs.pin }}'  # ${{ inputs.pin }}"
    filled = shell_script(script, {"inputs.pin": secret}, {"inputs.pin"})
    assert secret not in filled.text
    said = subprocess.run(
        ["bash", "-c", filled.text], env=filled.env, capture_output=True, text=True, check=True
    )
    assert said.stdout == f"{secret}|" * 3


@pytest.mark.parametrize("script", ["echo $(( ${{ inputs.pin }} ))", "cat <<'END'\n${{ inputs.pin }}\nEND\n"])
def test_a_secret_is_refused_where_bash_expands_no_variable(script: str) -> None:
    with pytest.raises(TemplateError, match="secret"):
        shell_script(script, {"inputs.pin": "12"}, {"inputs.pin"})


# Plain data


def test_a_string_that_is_one_reference_becomes_the_value_itself() -> None:
    data = {"n": " ${{ steps.fetch.outputs.count }} ", "all": ("${{ steps.fetch.outputs.items }}", 7)}
    assert substitute_value(data, SCOPE) == {"n": 3, "all": [["a", {"b": 1.0}], 7]}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("no reference", "no reference"),
        ("${{ steps.fetch.outputs.count }}!", "3!"),
        ("${{ inputs.customer }}${{ inputs.month }}", "ACME2026-11"),
        (r"\${{ inputs.customer }}", "${{ inputs.customer }}"),
    ],
)
def test_a_string_with_more_than_one_reference_stays_a_string(text: str, filled: str) -> None:
    assert substitute_value(text, SCOPE) == filled


def test_plain_data_that_refers_to_nothing_there_is_refused_with_its_place() -> None:
    with pytest.raises(TemplateError, match="line 1, column 1"):
        substitute_value(["${{ inputs.nobody }}"], SCOPE)


def test_every_string_of_plain_data_is_looked_at_but_no_key() -> None:
    data = {"key": "a", "list": ["b", ("c", 1, None)], "deep": {"x": {"y": "d"}}}
    assert [*texts_in(data)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("script", [f"echo ${{unset:-{X}", f"cat << ; echo {X}"])
def test_a_script_that_bash_would_refuse_is_read_to_its_end(script: str) -> None:
    at = script.index(X)
    assert quoting(script, {at: at + len(X)}).contexts == {at: Context.BARE}
