#!/usr/bin/env bash
# The compose stack as local processes, without Docker: MinIO, sample data, and a gateway or a cluster of three.
# usage: deploy/dev.sh start|cluster|stop|status
#
# DEV_DIR     where data, logs and process ids are kept
# DEV_LISTEN  the gateway's address, 127.0.0.1:8080; of a cluster three, with spaces between them
# DEV_PEERS   where the three ask each other
# DEV_S3      MinIO's address, 127.0.0.1:9000
# DEV_SOURCE  the directory to pack, Go's source tree
# DEV_BINARY  the millrace command, bin/millrace
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/millrace
dir=${DEV_DIR:-$cache/dev}
s3=${DEV_S3:-127.0.0.1:9000}
millrace=${DEV_BINARY:-$root/bin/millrace}

stop_one() { # NAME PROGRAM
  local file=$dir/$1.pid pid
  [ -f "$file" ] || return 0
  pid=$(cat "$file")
  # Only what is still the program that was started under this id.
  if ps -o args= -p "$pid" 2>/dev/null | grep -qF -- "$2"; then
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 100); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
    echo "stopped $1"
  fi
  rm -f "$file"
}

wait_for() { # NAME URL
  for _ in $(seq 300); do
    kill -0 "$(cat "$dir/$1.pid")" 2>/dev/null || break
    curl -fsS -o /dev/null "$2" 2>/dev/null && return 0
    sleep 0.1
  done
  echo "$1 did not start; its log:" >&2
  tail -n 20 "$dir/$1.log" >&2
  exit 1
}

store() {
  "$root/tools/deps.sh"
  stop >/dev/null
  mkdir -p "$dir/objects/train"
  umask 077
  if [ ! -s "$dir/credentials" ]; then
    # Made once, on this machine, for this machine.
    printf 'AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s\n' \
      "$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')" "$(od -An -N20 -tx1 /dev/urandom | tr -d ' \n')" >"$dir/credentials"
  fi
  set -a
  # shellcheck disable=SC1091
  source "$dir/credentials"
  AWS_ENDPOINT_URL_S3=http://$s3
  AWS_REGION=us-east-1
  set +a

  MINIO_ROOT_USER=$AWS_ACCESS_KEY_ID MINIO_ROOT_PASSWORD=$AWS_SECRET_ACCESS_KEY MINIO_BROWSER=off \
    nohup "$cache/bin/minio" server --quiet --address "$s3" "$dir/objects" >"$dir/minio.log" 2>&1 </dev/null &
  echo $! >"$dir/minio.pid"
  wait_for minio "http://$s3/minio/health/cluster"

  if ! "$millrace" pack "${DEV_SOURCE:-$(go env GOROOT)/src}" s3://train/sample; then
    stop
    echo "other files than before? remove $dir/objects to pack anew" >&2
    exit 1
  fi
}

gateway() { # NAME ADDRESS FLAGS
  nohup "$millrace" serve --dataset sample=s3://train/sample --listen "$2" --lame-duck 0s "${@:3}" >"$dir/$1.log" 2>&1 </dev/null &
  echo $! >"$dir/$1.pid"
}

start() {
  local listen=${DEV_LISTEN:-127.0.0.1:8080}
  store
  gateway millrace "$listen"
  wait_for millrace "http://$listen/readyz"
  cat <<END

MinIO:    http://$s3, bucket train (credentials in $dir/credentials)
gateway:  http://$listen
logs:     $dir

  curl -s http://$listen/epoch/0/batch/17 | tar -t
  curl -s http://$listen/v1/datasets/sample/epochs/0/batches/17/manifest
  curl -sI http://$listen/epoch/0/batch/17
  $millrace fetch http://$listen --epoch 0

Stop it with: make dev-stop
END
}

cluster() {
  local listen peers i
  read -r -a listen <<<"${DEV_LISTEN:-127.0.0.1:8080 127.0.0.1:8081 127.0.0.1:8082}"
  read -r -a peers <<<"${DEV_PEERS:-127.0.0.1:7946 127.0.0.1:7956 127.0.0.1:7966}"
  store
  for i in 0 1 2; do
    # Peers without certificates may speak on loopback only; deploy/certificates.sh makes some for elsewhere.
    gateway "millrace-$i" "${listen[i]}" --cluster dev --member "gw-$i" --join "$(IFS=, && echo "${peers[*]}")" \
      --peer-listen "${peers[i]}" --peer-insecure --cache-size 512MiB
  done
  for i in 0 1 2; do
    wait_for "millrace-$i" "http://${listen[i]}/readyz"
  done
  cat <<END

MinIO:    http://$s3, bucket train (credentials in $dir/credentials)
gateways: $(printf 'http://%s ' "${listen[@]}")
logs:     $dir

  curl -s http://${listen[0]}/v1/cluster
  curl -s http://${listen[1]}/epoch/0/batch/17 | tar -t
  curl -s 'http://${listen[2]}/epoch/0/batch/17?rank=2&world_size=3&share=locality' | tar -t
  $millrace fetch $(printf 'http://%s ' "${listen[@]}")--epoch 0

Stop them with: make dev-stop
END
}

stop() {
  local name
  for name in millrace millrace-0 millrace-1 millrace-2; do
    stop_one "$name" "$millrace"
  done
  stop_one minio "$cache/bin/minio"
}

case ${1:-} in
  start) start ;;
  cluster) cluster ;;
  stop) stop ;;
  status)
    for name in minio millrace millrace-0 millrace-1 millrace-2; do
      [ -f "$dir/$name.pid" ] && echo "$name: process $(cat "$dir/$name.pid")"
    done
    ;;
  *)
    echo "usage: deploy/dev.sh start|cluster|stop|status" >&2
    exit 2
    ;;
esac
