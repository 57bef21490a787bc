#!/usr/bin/env bash
# From FCS files of pools to a sentence for a paper, by commands alone (under a minute).
# Run: bash examples/fcs_pools.sh [FOLDER]     needs: pip install 'unshuffle[fcs,report]'
# The guide is docs/guides/cytometry.md.
set -euo pipefail
mkdir -p "${1:-fcs_pools}" && cd "${1:-fcs_pools}"

# In place of the laboratory: FCS files of ten pools, and the shares of their constructs.
unshuffle simulate --pools pools -n 4000 -d 2 --bags 10 --distribution uniform \
    --weights 0.9,0.5 --intercept -1 --noise 0.18 --seed 1
unshuffle describe pools/pool01.fcs
unshuffle fit --rows pools/pools.csv --weight share --exclude construct --bag pool \
    --labels pools/pool*.fcs --label 'log10(FITC-A / PE-Texas Red-A)' \
    --calibration pools/single.fcs --out coefficients.csv --figure coefficients.svg --report fit.html
cat coefficients.csv

# The sentence stands below the heading "For a paper".
sed -n '/id="paper"/{n;s/<[^>]*>//g;p;}' fit.html
