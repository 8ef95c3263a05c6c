#!/usr/bin/env bash
# Measures what an app whose key Apple refuses costs the others in the same worker: two teams, three apps, one simulator. Each
# round sends the same to "one" and "three": while "two" has nothing to send, while its key is refused and as much is due for it, once
# more when it is paused for that, and again with nothing. Prints the rates of the others and ratios; they should be above 0.95.
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
    --key "id=THREESKEY1,team=OTHERTEAM1,file=$work/THREESKEY1.p8" <"$work/commands" >"$work/answers" 2>"$work/simulator" & simulator=$!
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

enqueue() { # enqueue APP…: a broadcast and as many singles as a fifth of the devices, all in place before they are due at once
    local app statements=""
    for app in "$@"; do
        statements+="INSERT INTO scheduled_notifications (app, user_id, body, scheduled_at)
             SELECT '$app', '$app-' || n, 'x', now() + interval '4 s' FROM generate_series(1, $devices / 5) n;
             INSERT INTO scheduled_notifications (app, broadcast, body, scheduled_at) VALUES ('$app', true, 'x', now() + interval '4 s');"
    done
    sql "BEGIN; $statements COMMIT"
}
rate() { # rate: waits for the others; prints their pushes a second, from when they were due to the last end
    until [ "$(sql "SELECT count(*) FROM scheduled_notifications WHERE app <> 'two' AND finished_at IS NULL")" = 0 ]; do sleep 0.5; done
    sql "SELECT round(sum(accepted_count) / extract(epoch FROM max(finished_at) - min(scheduled_at)))
         FROM scheduled_notifications WHERE app <> 'two'"
}
forget() { sql "TRUNCATE scheduled_notifications, notification_batches, delivery_failures, app_pauses, token_windows, proposed_deactivations"; }

# The worker's processor time since the last call, in clock ticks: what a busy machine disturbs least.
ticks() { awk '{print $14 + $15}' "/proc/$worker/stat"; }
spent() { local now; now=$(ticks); echo $((now - $(cat "$work/ticks"))); echo "$now" >"$work/ticks"; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", b / a }'; }

enqueue one three; rate >/dev/null   # connections are open, tables are warm
ticks >"$work/ticks"
for round in $(seq "$rounds"); do
    forget; enqueue one three; before=$(rate); cpu=$(spent)
    forget; echo "revoke TWOSKEY001" >&9; enqueue two one three; refused=$(rate); cpu+=" $(spent)"
    # Again with the pause in place: what had been taken up for "two" before Apple's first refusal costs nothing any more.
    sql "DELETE FROM scheduled_notifications WHERE app <> 'two'"; enqueue two one three; paused=$(rate); cpu+=" $(spent)"
    forget; echo "restore TWOSKEY001" >&9; enqueue one three; after=$(rate); cpu+=" $(spent)"
    alone=$(((before + after) / 2))
    echo "round $round  others alone $before/s and $after/s ($(ratio "$before" "$after"))  while a key is refused $refused/s" \
        "($(ratio "$alone" "$refused"))  while its app is paused $paused/s ($(ratio "$alone" "$paused"))  worker's clock ticks: alone, refused, paused, alone: $cpu"
    echo "$(ratio "$alone" "$refused") $(ratio "$alone" "$paused") $(ratio "$before" "$after")" >>"$work/ratios"
done
median() { sort -n | awk '{v[NR] = $1} END { printf "%.3f", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
echo "median ratios: refused $(cut -d' ' -f1 "$work/ratios" | median), paused $(cut -d' ' -f2 "$work/ratios" | median)," \
    "alone to alone $(cut -d' ' -f3 "$work/ratios" | median) (the noise of this machine)"
