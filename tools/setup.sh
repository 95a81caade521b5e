#!/usr/bin/env bash
# Make .venv with the pinned development versions and this package in it. Idempotent: a second call does nothing
# unless the pins, the project file or the interpreter changed.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
command -v "$python" >/dev/null || { echo "setup: $python not found; install Python 3.11 or newer" >&2; exit 1; }
"$python" - <<'PY' || { echo "setup: Recoup needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
import sys
sys.exit(sys.version_info < (3, 11))
PY

wanted=$({ cat requirements-dev.txt pyproject.toml tools/setup.sh; "$python" -V; pwd; } | sha256sum | cut -d' ' -f1)
compile_sources() {
    # Whatever was edited: a command that finds it compiled starts in half the time.
    .venv/bin/python -m compileall -q src
}

if [ -f .setup-stamp ] && [ "$(cat .setup-stamp)" = "$wanted" ] && [ -x .venv/bin/recoup ]; then
    compile_sources
    exit 0
fi

apt_install() {
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
    echo "setup: installing $*" >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null 2>&1 && return
    apt-get update -qq >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}

# Debian ships python3 without ensurepip.
"$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv ||
    { echo "setup: this Python cannot make virtual environments; install python3-venv" >&2; exit 1; }
rm -rf .venv
"$python" -m venv .venv
echo "setup: installing the pinned packages (about half a minute)" >&2
# The pip that comes with Python 3.11 takes twice as long.
pip() { .venv/bin/python -m pip --disable-pip-version-check "$@"; }
pip install -q pip==26.3
# Two at a time: unpacking keeps a processor busy. The list is complete, so that neither half looks for what the other brings.
# What is used gets compiled when it is: the packages have eight times as many files as that.
half() { pip install -q --no-compile --no-deps -r <(grep '==' requirements-dev.txt | sed -n "$1"); }
half 'p;n' &
first=$!
half 'n;p'
wait "$first"
pip check >/dev/null || { pip check >&2; exit 1; }
pip install -q --no-deps --no-build-isolation -e .
compile_sources
echo "$wanted" >.setup-stamp
