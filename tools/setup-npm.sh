#!/usr/bin/env bash
# Installs npm packages for the tests: `tools/setup-npm.sh FOLDER NAME [SCRIPTED...]` installs what tools/npm/NAME locks, each
# package at one version with one checksum. No script of a package is run, but for the packages SCRIPTED, which need theirs.
# Idempotent: does nothing when the folder has them. To change a version: edit tools/npm/NAME/package.json, then there
# `npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved`.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1
locked=tools/npm/$2
shift 2
seconds=300
wanted=$({ cat tools/setup-npm.sh "$locked"/{package.json,package-lock.json}; echo "$*"; } | sha256sum | cut -d' ' -f1)
[ -f "$folder/stamp" ] && [ "$(cat "$folder/stamp")" = "$wanted" ] && exit 0

echo "setup: installing what $locked locks" >&2
rm -rf "$folder"
mkdir -p "$folder"
cp -R "$locked/." "$folder"
run_npm() {
    PATH=$PWD/.bench/node/bin:$PATH timeout "$seconds" npm "$@" --prefix "$folder" --no-audit --no-fund \
        --fetch-retries=3 --fetch-retry-mintimeout=1000 --loglevel=error >>"$folder/npm.log" 2>&1 ||
        { tail -n 5 "$folder/npm.log" >&2; echo "setup: npm could not install them, see $folder/npm.log" >&2; exit 1; }
}
run_npm ci --ignore-scripts
[ $# -eq 0 ] || run_npm rebuild "$@"
echo "$wanted" >"$folder/stamp"
