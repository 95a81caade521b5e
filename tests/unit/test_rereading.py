"""Notes on scripts in which bash reads a value a second time; scripts that use values as data have none."""

from __future__ import annotations

import time

import pytest

from recoup.kernel.rereading import rereads

REF = "${{ inputs.n }}"


def found(script: str, env: dict[str, str] | None = None, safe: bool = False) -> list[str]:
    return [one.words.partition(":")[0] for one in rereads(script, env or {}, lambda _name: safe)]


@pytest.mark.parametrize(
    ("script", "what"),
    [
        (f"n={REF}; (( n > 1 ))", "`((…))`"),
        (f"n={REF}\nif (( $n > 1 )); then :; fi", "`((…))`"),
        (f'n="{REF}"; m=$n; echo $((m + 1))', "`((…))`"),
        (f"echo $(( $(echo {REF}) ))", "`((…))`"),
        (f"n={REF}; let i=n+1", "`let`"),
        (f"n={REF}; [[ $n -gt 3 ]]", "`[[ … -eq … ]]`"),
        (f"n={REF}; [[ 3 -lt n ]]", "`[[ … -eq … ]]`"),
        (f"n={REF}; echo ${{list[$n]}}", "a subscript"),
        (f"test -v {REF}", "`-v`"),
        (f'n={REF}; [[ -v "$n" ]]', "`-v`"),
        (f"declare -n ref={REF}", "`declare -n`"),
        (f"f() {{ local -n ref=$1; }}; n={REF}; local -n ref=$n", "`declare -n`"),
        (f'declare x"{REF}"=1', "`declare`"),
        (f'printf -v "{REF}" x', "`printf -v`, `read`"),
        (f"echo hello >&{REF}", "`>&`"),
        (f"PS4='{REF}'; set -x; true", "`PS4`"),
        (f'compgen -W "{REF}"', "`compgen -W`"),
        (f'eval "echo {REF}"', "`eval`"),
        (f'n={REF}; eval "$n"', "`eval`"),
        (f"trap 'echo {REF}' EXIT", "`trap`"),
        (f'bash -c "echo {REF}"', "`bash -c`"),
        (f'n={REF}; sh -ec "echo $n"', "`bash -c`"),
        (f"bash <<END\necho {REF}\nEND", "a heredoc for a shell"),
        (f"n={REF}\nbash -s <<END\necho $n\nEND", "a heredoc for a shell"),
        (f"for n in {REF}; do (( n )); done", "`((…))`"),
        (f'n={REF}; echo "${{!n}}"', "`${!…}`"),
        (f"declare -i n; n={REF}", "`declare -i`"),
        (f'echo "{REF}" | bash', "`| bash`"),
        (f'n={REF}; printf %s "$n" | sh -s', "`| bash`"),
        (f'bash -s <<< "{REF}"', "`| bash`"),
        (f'python3 -c "print({REF})"', "`python -c`"),
        (f"python3 -c 'print({REF})'", "`python -c`"),
        (f'n={REF}; perl -ne "print $n"', "`python -c`"),
    ],
)
def test_each_place_where_bash_reads_a_value_again_is_named(script: str, what: str) -> None:
    assert what in found(script)
    assert found(script, safe=True) == [], "a whole number carries no code"


@pytest.mark.parametrize(
    "script",
    [
        f"echo {REF} | sort",
        f'n={REF}; if [ "$n" = 3 ]; then echo "$n"; fi',
        f'n={REF}; [[ "$n" == 3* ]] && grep -- "$n" file',
        f"count=3; (( count > 1 )); echo {REF}",
        f"# (( {REF} ))",
        f"cat <<END\n{REF}\nEND",
        f"bash script.sh {REF}",
        f'export NAME={REF}; ./run.sh "$NAME"',
        f"echo {REF} > out 2>&1",
        f"python3 - <<END\nprint(1)\nEND\necho {REF}",
        'n=3; (( n > 1 )); eval "$n"',
        f'n={REF}; python3 -c "import sys; print(sys.argv[1])" "$n"',
        f"echo {REF} | ./check.sh",
        f'echo "${{#n}} ${{!list@}}"; n={REF}',
    ],
)
def test_values_that_stay_data_get_no_note(script: str) -> None:
    assert found(script) == []


def test_a_variable_of_the_environment_is_a_value_too() -> None:
    assert found("(( N > 1 ))", {"N": REF}) == ["`((…))`"]
    assert found("(( N > 1 ))", {"N": "3"}) == []


def test_the_line_is_that_of_the_script() -> None:
    (only,) = rereads(f"n={REF}\ntrue\neval $n", {}, lambda _name: False)
    assert only.line == 3


@pytest.mark.parametrize(
    "text", ["(( " * 20_000, "[[ " * 20_000, f"n={REF}; " + "a[" * 30_000, "declare " * 9_000]
)
def test_no_script_makes_the_look_slow(text: str) -> None:
    began = time.process_time()
    rereads(f"n={REF}\n" + text, {}, lambda _name: False)
    assert time.process_time() - began < 2


def test_a_script_with_a_broken_reference_is_noted_elsewhere() -> None:
    assert found("echo ${{ inputs.n") == []


def test_values_that_are_handed_on_for_ever_are_followed_so_far() -> None:
    chain = "; ".join(f"n{number + 1}=$n{number}" for number in reversed(range(40)))
    assert found(f"n0={REF}; {chain}; (( n1 > 1 ))") == ["`((…))`"]


def test_a_heredoc_without_a_value_is_not_noted() -> None:
    assert found(f"n={REF}\nbash <<END\necho hello\nEND\n") == []
