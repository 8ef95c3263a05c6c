#!/bin/bash
# Holds the HTTP/2 client against h2load (Debian nghttp2-client) in one run, pair by pair, sender and sink on a core each.
#
#   compare.sh CLIENT SINK DATA [PAIRS] [further options of the client]
#
# CLIENT is the http2-benchmark binary of a release build, SINK the apns-sink binary, DATA the folder of bench-data.sh.
set -euo pipefail
client=$1 sink=$2 data=$3 pairs=${4:-5}
shift $(($# < 4 ? $# : 4))
port=${PORT:-8443} count=${COUNT:-50000}
connections=${CONNECTIONS:-1} streams=${STREAMS:-1000}

taskset -c 1 "$sink" --port "$port" --cert "$data/server.crt" --key "$data/server.key" ${SINK_OPTIONS:-} >"$data/sink.log" 2>&1 &
trap 'kill %1' EXIT
sleep 0.5
grep '^authorization: ' "$data/h2load.headers" | cut -d' ' -f2- >"$data/bearer.txt"
headers=()
while IFS= read -r line; do headers+=(-H "$line"); done <"$data/h2load.headers"

# CPU seconds of a command: user and system.
cpu() {
    local TIMEFORMAT='%U %S'
    { time "$@" >"$data/out.log" 2>&1; } 2>&1 | awk '{ printf "%.3f", $1 + $2 }'
}
h2load_run() { cpu taskset -c 0 h2load -t 1 -n "$1" -c "$connections" -m "$streams" -d "$data/payload.json" -i "$data/uris.txt" "${headers[@]}"; }

reading=$(h2load_run "$connections")
echo "h2load, reading its list of URIs alone: $reading CPU s"
for pair in $(seq "$pairs"); do
    theirs=$(h2load_run "$count")
    grep -q "$count done" "$data/out.log" || { cat "$data/out.log"; exit 1; }
    rate=$(sed -n 's/^finished in .*, \([0-9.]*\) req.*/\1/p' "$data/out.log")
    line=$(taskset -c 0 "$client" push --port "$port" --ca "$data/ca.crt" --tokens "$data/tokens.txt" \
        --payload "$data/payload.json" --bearer "$data/bearer.txt" --count "$count" \
        --connections "$connections" --streams "$streams" "$@")
    ours=$(sed -n 's/.*"cpu_seconds":\([0-9.]*\).*/\1/p' <<<"$line")
    awk -v t="$theirs" -v r="$reading" -v o="$ours" -v q="$rate" -v n="$count" -v l="$line" 'BEGIN {
        printf "h2load %.2f (%.2f without its list), %d/s; ours %.2f CPU s per 100k; ratio %.2f (%.2f)\n  %s\n",
            t * 1e5 / n, (t - r) * 1e5 / n, q, o * 1e5 / n, t / o, (t - r) / o, l }'
done
