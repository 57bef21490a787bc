#!/usr/bin/env bash
# From a register to its audit, by commands alone (about a minute).
# Run: bash examples/register_audit.sh [FOLDER]     needs: pip install 'unshuffle[report]'
# The guide is docs/guides/statistics-offices.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-register_audit}" && cd "${1:-register_audit}"

# In place of the office's own file: persons with made-up incomes.
python "$here/make_register.py" register.csv
unshuffle describe register.csv

# What an outsider could recover if income were shuffled within districts.
unshuffle audit register.csv --label income --bag district --id person \
    --dates birth --na school=999 --missing drop \
    --accept 0.05 --exposed exposed.csv --report audit.html

# What a user of the release can still estimate: the order inside a district is never read.
unshuffle fit register.csv --label 'log10(income)' --bag district --id person \
    --dates birth=1970-01-01 --na school=999 --missing drop --base sex=male \
    --out coefficients.csv --draws draws.csv --figure coefficients.svg
cat coefficients.csv
