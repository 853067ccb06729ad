#!/bin/sh
# All figures of scale: steps and times beside published ones, and simulations with closed forms and
# measured runs. Requires the extra scale, and matplotlib: PYTHON=.venv/bin/python benchmarks/scale/all.sh
set -eu
cd "$(dirname "$0")"
for one in steps predictions simulate; do
  echo "== $one.py"
  "${PYTHON:-python3}" "$one.py"
done
