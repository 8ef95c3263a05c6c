#!/usr/bin/env bash
# Installs what is missing, checks the style, builds, and runs every test; twice where a pooler could make a difference.
#
#   ./deploy/test.sh              everything
#   ./deploy/test.sh --filter X   only the suites whose name matches X
#
# By hand, since they take long (Tests/README.md):
#
#   ./deploy/test.sh chaos [--seed N] [--minutes M]  the long form of the chaos suite: scenarios from seed N on (by chance) for M
#                                                    minutes (20), 0: that one only
#   ./deploy/test.sh fuzz [SECONDS [SURFACE…]]       libFuzzer on what comes from outside, texts through the token normaliser (600)
#   ./deploy/test.sh thread|address [--filter X]     everything built with the thread or the address sanitizer
#   ./deploy/test.sh day [SECONDS]                   days of operation in which all clocks go sixty times as fast (1500)
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/packages.sh

require_swift
install_packages "${build_packages[@]}" "${cluster_packages[@]}" pgbouncer nghttp2-client curl util-linux faketime tinyproxy \
    nginx-light nghttp2-server python3-prometheus-client

chaos=no
if [ "${1:-}" = chaos ]; then
    chaos=yes
    shift
    export PGPUSH_CHAOS_MINUTES=20
    while [ $# -gt 0 ]; do
        case "$1 ${2:-}" in
            "--seed "[0-9]*) export PGPUSH_CHAOS_SEED="$2" ;;
            "--minutes "[0-9]*) export PGPUSH_CHAOS_MINUTES="$2" ;;
            *) echo "usage: ./deploy/test.sh chaos [--seed N] [--minutes M]" >&2; exit 2 ;;
        esac
        shift 2
    done
fi

case "${1:-}" in
fuzz) exec Tests/Fuzzing/fuzz.sh "${2:-600}" "${@:3}" ;;
thread | address) exec deploy/sanitize.sh "$@" ;;
day)
    export PGPUSH_DAY_SECONDS=${2:-1500}
    exec swift test --filter EndToEndTests.Endurance
    ;;
esac

flags=(--explicit-target-dependency-import-check error)
# Many tests wait for a program with their thread, and Swift has one thread for each core: with all tests begun at once, a short sleep
# of another lasts minutes.
run_tests() { swift test --skip-build "${flags[@]}" --experimental-maximum-parallelization-width 8 "$@"; }
echo "== style"
swift format lint --strict -r Package.swift Sources Tests sql
echo "== build"
swift build --build-tests --quiet "${flags[@]}"
if [ $chaos = yes ]; then
    echo "== chaos, the long form"
    run_tests --filter 'RandomScenarios/long|WhatItShows/databaseAwayForLong'
    exit
fi
if [ $# -gt 0 ]; then
    echo "== tests"
    run_tests "$@"
    exit
fi
echo "== tests"
scenarios='RandomScenarios|NamedPoints|WhatItShows'
run_tests --skip "$scenarios"
echo "== chaos, the short form"
# By itself: it judges what happens within a lease.
run_tests --filter "$scenarios"
echo "== the end-to-end tests once more, through pgbouncer in transaction mode"
export PGPUSH_TEST_POOLER=pgbouncer
run_tests --filter EndToEndTests
