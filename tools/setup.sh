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
.venv/bin/python -m pip install -q --disable-pip-version-check --no-compile -r requirements-dev.txt
# pip compiles with one processor; some packages hold files for other versions of Python, which do not compile.
.venv/bin/python -m compileall -qq -j 0 .venv/lib || true
.venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
compile_sources
echo "$wanted" >.setup-stamp
