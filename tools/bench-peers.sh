#!/usr/bin/env bash
# Measures Millrace against WebDataset, MosaicML Streaming and LitData, and on Parquet against `datasets`, LitData and pyarrow,
# and stores the two sections of docs/benchmarks.md, or that of the sets which are named (--sets).
# Each measurement is written down as it is made: --resume JSON goes on with a run that was ended. Arguments go to
# integration/bench/peers/run.py, or to integration/bench/peers/train.py, which measures a training step with decoding, if the first one is `train`: see --help there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/deps.sh
python=$(tools/python.sh)
go build -C integration -o ../bin/ ./bench ./bench/wire
minio=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/bin/minio
what=run
if [ "${1:-}" = train ]; then what=train && shift; fi
go build -o bin/millrace ./cmd/millrace
PYTHONPATH=integration/bench/peers "$python" "integration/bench/peers/$what.py" --program bin/millrace --wire bin/wire --minio "$minio" \
  --commit "$(git rev-parse --short=12 HEAD)" --bench bin/bench "$@"
exec bin/bench -page docs/benchmarks.md
