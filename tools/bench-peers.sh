#!/usr/bin/env bash
# Measures Millrace against WebDataset, MosaicML Streaming and LitData, and on Parquet against `datasets`, LitData and pyarrow,
# and writes the two sections of docs/benchmarks.md, or that of the sets which are named (--sets).
# Each measurement is written down as it is made: --resume JSON goes on with a run that was ended. Arguments go to
# bench/peers/run.py: see --help there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/deps.sh
python=$(tools/python.sh)
go build -o bin/wire ./bench/wire
minio=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/bin/minio
PYTHONPATH=bench/peers exec "$python" bench/peers/run.py --program bin/millrace --wire bin/wire --minio "$minio" \
  --commit "$(git rev-parse --short=12 HEAD)" --page docs/benchmarks.md "$@"
