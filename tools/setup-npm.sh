#!/usr/bin/env bash
# Installs npm packages for the tests: `tools/setup-npm.sh FOLDER PACKAGE...`, at exact versions. Idempotent: does nothing when the
# folder has them.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1
shift
seconds=300
[ -f "$folder/stamp" ] && [ "$(cat "$folder/stamp")" = "$*" ] && exit 0

echo "setup: installing $*" >&2
rm -rf "$folder"
mkdir -p "$folder"
PATH=$PWD/.bench/node/bin:$PATH timeout "$seconds" npm install --prefix "$folder" --no-audit --no-fund --no-package-lock \
    --fetch-retries=3 --fetch-retry-mintimeout=1000 --loglevel=error "$@" >"$folder/npm.log" 2>&1 ||
    { tail -n 5 "$folder/npm.log" >&2; echo "setup: npm could not install them, see $folder/npm.log" >&2; exit 1; }
echo "$*" >"$folder/stamp"
