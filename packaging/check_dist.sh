#!/usr/bin/env bash
# Build wheel and sdist, install the wheel in an empty environment, and run the quick tests there.
#
#     packaging/check_dist.sh [newest|lowest] [python …]
#
# "lowest" takes the oldest versions that pyproject.toml allows of what it names. Interpreters that
# are not there are named and left out; at least one must be.
set -euo pipefail
cd "$(dirname "$0")/.."
resolution=${1:-newest}
shift || true
pythons=("$@")
[ ${#pythons[@]} -gt 0 ] || pythons=(python3.11 python3.12 python3.13 python3.14)
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

python3 -m venv "$room/tools"
"$room/tools/bin/python" -m pip install -q build uv twine
rm -rf dist
"$room/tools/bin/python" -m build -q --outdir dist .
"$room/tools/bin/python" -m twine check --strict dist/*

tried=0
for python in "${pythons[@]}"; do
  if ! command -v "$python" >/dev/null; then
    echo "$python: not here, left out"
    continue
  fi
  rm -rf "$room/env" "$room/tests" "$room/docs" "$room/examples"
  "$python" -m venv "$room/env"
  strategy=highest
  [ "$resolution" = newest ] || strategy=lowest-direct
  "$room/tools/bin/uv" pip install -q --python "$room/env/bin/python" --resolution "$strategy" \
    "$(echo "$PWD"/dist/*.whl)[test]"
  # Away from the sources, so that the installed package is the one under test.
  cp -r tests docs examples README.md pyproject.toml "$room/"
  (cd "$room" && env/bin/python -m pytest -q -n auto -m quick -p no:cacheprovider tests)
  "$room/env/bin/unshuffle" --version
  tried=$((tried + 1))
done
if [ "$tried" -eq 0 ]; then
  echo "none of ${pythons[*]} is here: name an interpreter" >&2
  exit 1
fi
echo "passed with $tried interpreter(s), $resolution dependencies"
