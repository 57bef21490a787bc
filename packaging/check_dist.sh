#!/usr/bin/env bash
# Build wheel and sdist, install the wheel in an empty environment, and run the quick tests there.
#
#     packaging/check_dist.sh [newest|lowest] [python …]
#
# "lowest" takes the oldest versions that pyproject.toml allows of what it names. Interpreters that
# do not run are named and left out; at least one must run. A name alone proves nothing: version
# managers put a command in the PATH for every version they know.
set -euo pipefail
cd "$(dirname "$0")/.."
resolution=${1:-newest}
shift || true
pythons=("$@")
[ ${#pythons[@]} -gt 0 ] || pythons=(python3.11 python3.12 python3.13 python3.14)
usable=()
for python in "${pythons[@]}"; do
  if "$python" -c "import venv" >/dev/null 2>&1; then
    usable+=("$python")
  else
    echo "$python: does not run here, left out"
  fi
done
if [ ${#usable[@]} -eq 0 ]; then
  echo "none of ${pythons[*]} runs here: name an interpreter" >&2
  exit 1
fi

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

"${usable[0]}" -m venv "$room/tools"
"$room/tools/bin/python" -m pip install -q build uv twine
rm -rf dist
"$room/tools/bin/python" -m build -q --outdir dist .
"$room/tools/bin/python" -m twine check --strict dist/*

for python in "${usable[@]}"; do
  rm -rf "$room/env" "$room/tests" "$room/docs" "$room/examples"
  "$python" -m venv "$room/env"
  strategy=highest
  [ "$resolution" = newest ] || strategy=lowest-direct
  "$room/tools/bin/uv" pip install -q --python "$room/env/bin/python" --resolution "$strategy" \
    "$(echo "$PWD"/dist/*.whl)[test]"
  # Away from the sources, so that the installed package is the one under test.
  cp -r tests docs examples README.md pyproject.toml "$room/"
  (cd "$room" && env/bin/python -m pytest -q -n logical --dist loadfile -m quick -p no:cacheprovider tests)
  "$room/env/bin/unshuffle" --version
done
echo "passed with ${#usable[@]} interpreter(s), $resolution dependencies"
