#!/usr/bin/env bash
# Measures the whole worker against h2load in one run: PostgreSQL, the worker and a fast stand-in for the gateway
# (apns-sink) on this machine. Prints pushes per CPU second and the ratio to h2load, rates, and resident memory.
#
#   Tests/Benchmarks/end-to-end.sh [ROUNDS]          default 3 rounds; medians are yours to take from the lines
#   MILLION=1 Tests/Benchmarks/end-to-end.sh         also a broadcast to 1,000,000 devices, for memory
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
rounds=${1:-3}
tools=${APNS_TOOLS:-$root/../shared/tools}
. "$root/deploy/packages.sh"
. "$root/deploy/cluster.sh"
install_packages "${build_packages[@]}" "${cluster_packages[@]}" nghttp2-client gcc libc6-dev python3

work=$(mktemp -d /tmp/pgpush-bench.XXXXXX)
cleanup() {
    kill ${sink:-} ${worker:-} 2>/dev/null || true
    stop_cluster || true
    rm -rf "$work"
}
trap cleanup EXIT

cc -O2 -o "$work/apns-sink" "$tools/apns-sink.c" -lnghttp2 -lssl -lcrypto
(cd "$root" && swift build -c release --quiet --product pgpush)
pgpush=$root/.build/release/pgpush
port=$((20000 + RANDOM % 20000))
DATA=$work/data PORT=$port bash "$tools/bench-data.sh" >/dev/null
start_cluster "$work/cluster"
export DATABASE_URL=$CLUSTER_URL APNS_PRODUCTION_URL=https://localhost:$port APNS_CA_PATH=$work/data/ca.crt
export APNS_KEY_PATH=$work/data/AuthKey_ABC123DEFG.p8 APNS_KEY_ID=ABC123DEFG APNS_TEAM_ID=DEF123GHIJ
export APNS_BUNDLE_ID=com.example.bench
sql() { psql -qAtX -v ON_ERROR_STOP=1 "$DATABASE_URL" -c "$1"; }
"$pgpush" migrate >/dev/null

devices() { # devices FROM TO
    sql "INSERT INTO devices (user_id, device_token, environment)
         SELECT 'u' || n, encode(sha256(('bench-' || n)::bytea), 'hex'), 'production' FROM generate_series($1, $2) n"
    sql "VACUUM ANALYZE devices"
}

# timed NAME COUNT COMMAND…: CPU seconds of the command alone, wall seconds, pushes per CPU second.
timed() {
    local name=$1 count=$2; shift 2
    local TIMEFORMAT='%R %U %S' figures
    figures=$({ time "$@" >"$work/out" 2>"$work/err"; } 2>&1) || { cat "$work/err"; return 1; }
    awk -v name="$name" -v count="$count" -v f="$figures" 'BEGIN {
        split(f, t, " "); cpu = t[2] + t[3]
        printf "%-28s wall %6.2f s  cpu %6.2f s  %8.0f/s  %8.0f per CPU s\n", name, t[1], cpu, count / t[1], count / cpu }'
}

peak() { # peak NAME COMMAND…: the greatest resident memory of the command
    local name=$1; shift
    "$@" >/dev/null 2>"$work/err" & local pid=$! most=0 now
    while kill -0 $pid 2>/dev/null; do
        now=$(awk '/VmHWM/ {print $2}' /proc/$pid/status 2>/dev/null || true)
        [ -n "$now" ] && most=$now
        sleep 0.1
    done
    wait $pid
    printf '%-28s peak resident memory %d kB\n' "$name" "$most"
}

taskset -c 1 "$work/apns-sink" --port "$port" --cert "$work/data/server.crt" --key "$work/data/server.key" \
    >"$work/sink.out" 2>/dev/null & sink=$!
sleep 0.5
headers=()
while IFS= read -r line; do headers+=(-H "$line"); done <"$work/data/h2load.headers"
h2load_run() {
    taskset -c 0 h2load -t 1 -n 50000 -c 1 -m 1000 -d "$work/data/payload.json" -i "$work/data/uris.txt" "${headers[@]}"
}
body='Your parcel is on its way and should reach you by Friday, between nine and noon.'

devices 1 100000
for _ in $(seq "$rounds"); do
    timed "h2load" 50000 h2load_run
    sql "INSERT INTO scheduled_notifications (broadcast, title, body) VALUES (true, 'Order has shipped', '$body')"
    timed "broadcast to 100,000" 100000 taskset -c 0 "$pgpush" worker --once
    sql "INSERT INTO scheduled_notifications (user_id, title, body)
         SELECT 'u' || n, 'Order has shipped', '$body' FROM generate_series(1, 20000) n"
    timed "20,000 singles" 20000 "$pgpush" worker --once
    sql "INSERT INTO scheduled_notifications (broadcast, title, body) VALUES (true, 'Order has shipped', '$body')"
    timed "broadcast, cores free" 100000 "$pgpush" worker --once
done
sql "SELECT status, count(*), sum(accepted_count) FROM scheduled_notifications GROUP BY 1"

# What a broadcast to 300,000 costs a single user whose time comes meanwhile: sent_at, which is when its answer was written down, against
# scheduled_at.
devices 100001 300000
"$pgpush" worker 2>"$work/err" & worker=$!
sql "INSERT INTO scheduled_notifications (broadcast, title, body) VALUES (true, 'Order has shipped', '$body')"
for n in $(seq 8); do
    sleep 0.5
    sql "INSERT INTO scheduled_notifications (user_id, title, body, scheduled_at, data)
         VALUES ('u$n', 'Order has shipped', '$body', now() + interval '300 ms', '{\"delay\": true}')"
done
until [ "$(sql "SELECT count(*) FROM scheduled_notifications WHERE finished_at IS NULL")" = 0 ]; do sleep 0.2; done
kill "$worker"; wait "$worker" || true
sql "SELECT 'single beside a broadcast: ' || count(*) || ' singles, ' || round(percentile_cont(0.5) WITHIN GROUP (ORDER BY d)::numeric, 3)
         || ' s in the middle, ' || round(max(d)::numeric, 3) || ' s at most'
     FROM (SELECT extract(epoch FROM s.sent_at - s.scheduled_at) AS d FROM scheduled_notifications s, scheduled_notifications b
           WHERE s.data ? 'delay' AND b.id = (SELECT max(id) FROM scheduled_notifications WHERE broadcast) AND s.sent_at < b.finished_at) x"

sql "UPDATE devices SET is_active = false WHERE id > 10000"
sql "INSERT INTO scheduled_notifications (broadcast, title, body) VALUES (true, 'a', '$body')"
peak "broadcast to 10,000" "$pgpush" worker --once
if [ -n "${MILLION:-}" ]; then
    sql "UPDATE devices SET is_active = true"
    devices 300001 1000000
    sql "INSERT INTO scheduled_notifications (broadcast, title, body) VALUES (true, 'a', '$body')"
    peak "broadcast to 1,000,000" "$pgpush" worker --once
fi
