#!/bin/sh
# Two processes on this machine, which meet on the loopback interface, for one fit of a table.
#     sh examples/launch/local.sh rows.parquet TARGET OUT [further options of `kosambi fit`]
set -eu
data=$1 target=$2 out=$3
shift 3
number=2
# Any free port; all processes must be given the same.
coordinator=127.0.0.1:${PORT:-8476}

fit() {
    kosambi fit "$data" --target "$target" --out "$out" --distributed \
        --coordinator "$coordinator" --num-processes "$number" --process-id "$@"
}

# Process 0 writes the run; what the others say goes to a file each.
for id in $(seq 1 $((number - 1))); do
    fit "$id" "$@" >"process-$id.log" 2>&1 &
done
fit 0 "$@"
wait
