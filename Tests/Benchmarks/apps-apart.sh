#!/usr/bin/env bash
# Measures what an app whose key Apple refuses costs the others in the same worker: two teams, three apps, one simulator. Each
# round sends the same to "one" and "three", once while "two" has nothing to send, and once while its key is revoked and
# as much is due for it. Prints the rates of the others and their ratio; it should be above 0.95.
#
#   Tests/Benchmarks/apps-apart.sh [ROUNDS] [DEVICES]       default 5 rounds, 20,000 devices for each app
#   CONFIGURATION=debug Tests/Benchmarks/apps-apart.sh      with what has been built for the tests
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
rounds=${1:-5}
devices=${2:-20000}
configuration=${CONFIGURATION:-release}
. "$root/deploy/packages.sh"
. "$root/deploy/cluster.sh"
install_packages "${build_packages[@]}" "${cluster_packages[@]}" openssl

work=$(mktemp -d /tmp/pgpush-apart.XXXXXX)
cleanup() {
    [ -n "${worker:-}" ] && kill "$worker" 2>/dev/null || true
    [ -n "${simulator:-}" ] && kill "$simulator" 2>/dev/null || true
    wait
    stop_cluster || true
    rm -rf "$work"
}
trap cleanup EXIT

if [ "$configuration" = release ]; then
    (cd "$root" && swift build -c release --quiet --product pgpush && swift build -c release --quiet --product apns-simulator)
fi
bin=$root/.build/$configuration
for name in TWOSKEY001 THREESKEY1; do
    openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$work/$name.p8"
done
mkfifo "$work/commands"
"$bin/apns-simulator" --port 0 --sandbox-port 0 --ca-dir "$work/ca" --print-env "$work/env" --control-stdin --seed 1 \
    --bundle-id com.example.one --bundle-id com.example.two --bundle-id com.example.three \
    --key "id=TWOSKEY001,team=SIMTEAM001,file=$work/TWOSKEY001.p8" \
    --key "id=THREESKEY1,team=OTHERTEAM1,file=$work/THREESKEY1.p8" <"$work/commands" >"$work/answers" & simulator=$!
exec 9>"$work/commands"
until grep -q ready "$work/answers"; do sleep 0.1; done
set -a; . "$work/env"; set +a
start_cluster "$work/cluster"
export DATABASE_URL=$CLUSTER_URL
sql() { psql -qAtX -v ON_ERROR_STOP=1 "$DATABASE_URL" -c "$1"; }
"$bin/pgpush" migrate >/dev/null

app() { # app NAME KEY TEAM FILE
    printf '{"name": "%s", "bundle_id": "com.example.%s", "key_id": "%s", "team_id": "%s", "key_path": "%s"}' "$1" "$1" "$2" "$3" "$4"
}
cat >"$work/apps.json" <<END
{"production_url": "$APNS_PRODUCTION_URL", "sandbox_url": "$APNS_SANDBOX_URL", "ca_path": "$APNS_CA_PATH", "apps": [
  $(app one "$APNS_KEY_ID" "$APNS_TEAM_ID" "$APNS_KEY_PATH"),
  $(app two TWOSKEY001 SIMTEAM001 "$work/TWOSKEY001.p8"),
  $(app three THREESKEY1 OTHERTEAM1 "$work/THREESKEY1.p8")]}
END
export PGPUSH_CONFIG=$work/apps.json
unset APNS_PRODUCTION_URL APNS_SANDBOX_URL APNS_CA_PATH APNS_KEY_ID APNS_TEAM_ID APNS_KEY_PATH APNS_BUNDLE_ID
for app in one two three; do
    sql "INSERT INTO devices (app, user_id, device_token)
         SELECT '$app', '$app-' || n, encode(sha256(('$app-' || n)::bytea), 'hex') FROM generate_series(1, $devices) n"
done
sql "VACUUM ANALYZE devices"
"$bin/pgpush" worker --poll-interval 1 2>"$work/log" & worker=$!

enqueue() { # enqueue APP…: a broadcast and as many singles as a fifth of the devices
    for app in "$@"; do
        sql "INSERT INTO scheduled_notifications (app, user_id, body)
             SELECT '$app', '$app-' || n, 'x' FROM generate_series(1, $devices / 5) n;
             INSERT INTO scheduled_notifications (app, broadcast, body) VALUES ('$app', true, 'x')"
    done
}
rate() { # rate NAME: waits for the others; prints their pushes a second, from the first start to the last end
    until [ "$(sql "SELECT count(*) FROM scheduled_notifications WHERE app <> 'two' AND finished_at IS NULL")" = 0 ]; do sleep 0.2; done
    sql "SELECT round(sum(accepted_count) / extract(epoch FROM max(finished_at) - min(started_at)))
         FROM scheduled_notifications WHERE app <> 'two'"
}
forget() { sql "TRUNCATE scheduled_notifications, notification_batches, delivery_failures, app_pauses, token_windows, proposed_deactivations"; }

enqueue one three; rate >/dev/null   # connections are open, tables are warm
for round in $(seq "$rounds"); do
    forget; enqueue one three; alone=$(rate)
    forget; echo "revoke TWOSKEY001" >&9; enqueue two one three; beside=$(rate)
    pauses=$(sql "SELECT string_agg(DISTINCT app || ' ' || reason, ', ') FROM app_pauses")
    echo "restore TWOSKEY001" >&9
    awk -v r="$round" -v a="$alone" -v b="$beside" -v p="$pauses" 'BEGIN {
        printf "round %d  others alone %7.0f/s  beside a refused key %7.0f/s  ratio %.3f  (paused: %s)\n", r, a, b, b / a, p }'
    echo "$beside $alone" >>"$work/ratios"
done
awk '{print $1 / $2}' "$work/ratios" | sort -n | awk '{v[NR] = $1} END {
    printf "median ratio %.3f\n", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'
