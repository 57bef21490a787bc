#!/usr/bin/env bash
# From a plan to its fit, by commands alone (under a minute).
# Run: bash examples/plan_fit.sh [FOLDER]     needs: pip install 'unshuffle[report]'
# The guide is docs/guides/plan-to-fit.md.
set -euo pipefail
mkdir -p "${1:-plan_fit}" && cd "${1:-plan_fit}"

# In place of the table of samples: two features, known before the experiment.
unshuffle simulate -n 96 -d 2 --distribution lognormal --seed 2 --out samples.csv
unshuffle plan samples.csv --features x1,x2 --runs 4,8 --noise 0.3 --label-sd 1 --trials 6 \
    --method ls --out plan.csv --figure plan.svg
head -3 plan.csv

# In place of the laboratory: labels of each run, in no order.
unshuffle simulate --samples plan.csv --features x1,x2 --bag runs_8 --weights 0.8,-0.5 \
    --intercept 2 --noise 0.3 --seed 3 --out measured.csv
unshuffle fit measured.csv --label y --bag runs_8 --bag-offsets none --noise 0.3 \
    --out coefficients.csv --figure coefficients.svg --report fit.html
cat coefficients.csv
