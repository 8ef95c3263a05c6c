#!/usr/bin/env bash
# The whole thing on one machine, without an Apple account: a private PostgreSQL cluster, the APNs simulator, 10,000
# devices, one push to a user, one to a list, a broadcast, a cancelled one, two workers. Ends with a table of what
# happened. Needs Debian 12 and the Swift toolchain; leaves nothing behind but the build.
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/packages.sh
. deploy/cluster.sh

require_swift
install_packages "${build_packages[@]}" "${cluster_packages[@]}"

say() { printf '\n== %s\n' "$*"; }
say "building (release)"
swift build -c release --quiet --product pgpush
swift build -c release --quiet --product apns-simulator
bin=$(swift build -c release --show-bin-path)
PATH=$bin:$PATH

work=$(mktemp -d "${TMPDIR:-/tmp}/pgpush-demo.XXXXXX")
background=()
cleanup() {
    local pid
    for pid in "${background[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    stop_cluster || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

say "starting a private PostgreSQL cluster and the APNs simulator"
start_cluster "$work/cluster"
export DATABASE_URL=$CLUSTER_URL
apns-simulator --port 0 --sandbox-port 0 --ca-dir "$work/simulator" --print-env "$work/env" --journal "$work/journal" \
    >"$work/simulator.out" 2>"$work/simulator.log" &
background+=($!)
for _ in $(seq 100); do grep -q ready "$work/simulator.out" 2>/dev/null && break; sleep 0.1; done
grep -q ready "$work/simulator.out" || { cat "$work/simulator.log" >&2; exit 1; }
set -a; . "$work/env"; set +a

say "pgpush migrate"
pgpush migrate

say "registering devices: two of alice's by command, 10,000 of other users by SQL"
pgpush devices register --user alice --token "$(printf '%064x' 1)"
pgpush devices register --user alice --token "$(printf '%064x' 2)"
psql -qX -v ON_ERROR_STOP=1 "$DATABASE_URL" <<'SQL'
INSERT INTO devices (user_id, device_token)
SELECT 'user-' || n, encode(sha256(n::text::bytea), 'hex') FROM generate_series(1, 9998) n;
SQL

say "enqueuing: one user, a list, a broadcast, and one for tomorrow that is cancelled"
one=$(pgpush enqueue --user alice --title 'Hello' --body 'Your parcel has arrived')
list=$(pgpush enqueue --user user-1 --user user-2 --user user-3 --title 'Team' --body 'Lunch at noon')
# What a backend does, in its own transaction:
all=$(psql -qAtX -v ON_ERROR_STOP=1 "$DATABASE_URL" <<'SQL'
INSERT INTO scheduled_notifications (broadcast, title, body, data)
VALUES (true, 'News', 'Version 2 is out', '{"url": "/news/2"}') RETURNING id;
SQL
)
late=$(pgpush enqueue --user alice --title 'Tomorrow' --body 'Not to be sent' --at "$(date -u -d tomorrow +%FT%TZ)")
pgpush cancel "$late"
echo "user: $one  list: $list  broadcast: $all  cancelled: $late"

say "two workers"
for number in 1 2; do
    pgpush worker >"$work/worker-$number.log" 2>&1 &
    background+=($!)
    workers+=($!)
done
# A worker that has died meanwhile is the likeliest reason for a push that does not end: its last words come first.
explain() {
    local number
    for number in 1 2; do
        kill -0 "${workers[number - 1]}" 2>/dev/null && continue
        echo "error: worker $number has ended; its log:" >&2
        cat "$work/worker-$number.log" >&2
    done
    echo "error: notification $1 was not sent within 300 s" >&2
    exit 1
}
# In the foreground, so that the bar is drawn and Ctrl-C reaches it.
follow() { timeout --foreground 300 pgpush watch "$1" || explain "$1"; }
follow "$all"
for id in "$one" "$list"; do follow "$id" >/dev/null; done

say "stopping the workers"
for pid in "${workers[@]}"; do kill -TERM "$pid"; done
for pid in "${workers[@]}"; do wait "$pid" || { cat "$work"/worker-*.log >&2; exit 1; }; done

say "what happened"
psql -X -v ON_ERROR_STOP=1 "$DATABASE_URL" <<'SQL'
SELECT id, CASE WHEN broadcast THEN 'broadcast' WHEN user_id IS NOT NULL THEN 'user ' || user_id ELSE 'list' END AS target,
       title, status, device_count AS devices, accepted_count AS accepted, rejected_count AS rejected,
       round(extract(epoch FROM sent_at - started_at)::numeric, 2) AS seconds
FROM scheduled_notifications ORDER BY id;
SQL
pushes=$(grep -c '"event":"request"' "$work/journal")
tokens=$(grep '"event":"request"' "$work/journal" | sed 's/.*"apns_id":"\([^"]*\)".*/\1/' | sort -u | wc -l)
echo "the simulator answered $pushes pushes, $tokens of them different"
[ "$pushes" -eq 10005 ] && [ "$tokens" -eq 10005 ] || { echo "error: expected 10005 of each" >&2; exit 1; }
