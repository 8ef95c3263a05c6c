# A private PostgreSQL cluster in a folder of its own; sourced by the other scripts. A system cluster is not touched.

# start_cluster FOLDER: makes and starts a cluster; sets CLUSTER_URL. PostgreSQL refuses to run as root, so as root it runs
# as the user `postgres` that the package made.
start_cluster() {
    cluster_folder=$1
    cluster_bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
    cluster_user=()
    mkdir -p "$cluster_folder"
    if [ "$(id -u)" -eq 0 ]; then
        cluster_user=(runuser -u postgres --)
        chown postgres "$cluster_folder"
        # The folders above must let that user through.
        chmod a+x "$(dirname "$cluster_folder")"
    fi
    local password port attempt
    password=$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')
    printf '%s' "$password" >"$cluster_folder/password"
    [ "$(id -u)" -eq 0 ] && chown postgres "$cluster_folder/password"
    chmod 600 "$cluster_folder/password"
    "${cluster_user[@]}" "$cluster_bin/initdb" -D "$cluster_folder/data" -U pgpush -A scram-sha-256 \
        --pwfile "$cluster_folder/password" -E UTF8 --locale C.UTF-8 >"$cluster_folder/initdb.log" 2>&1 \
        || { cat "$cluster_folder/initdb.log" >&2; return 1; }
    for attempt in 1 2 3 4 5; do
        port=$((30000 + RANDOM % 25000))
        if "${cluster_user[@]}" "$cluster_bin/pg_ctl" -D "$cluster_folder/data" -w -t 60 -s \
            -l "$cluster_folder/data/server.log" \
            -o "-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories=$cluster_folder" start \
            2>>"$cluster_folder/start.log"; then
            CLUSTER_URL="postgresql://pgpush:$password@127.0.0.1:$port/postgres"
            return 0
        fi
    done
    echo "error: the private PostgreSQL cluster did not start; see $cluster_folder/data/server.log" >&2
    return 1
}

# stop_cluster: stops what start_cluster started.
stop_cluster() {
    [ -n "${cluster_folder:-}" ] && [ -e "$cluster_folder/data/postmaster.pid" ] || return 0
    "${cluster_user[@]}" "$cluster_bin/pg_ctl" -D "$cluster_folder/data" -m fast -w -t 30 -s stop
}
