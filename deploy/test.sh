#!/usr/bin/env bash
# Installs what is missing, checks the style, builds, and runs every test; twice where a pooler could make a difference.
#
#   ./deploy/test.sh              everything
#   ./deploy/test.sh --filter X   only the suites whose name matches X
#   ./deploy/test.sh chaos [--seed N] [--minutes M]
#                                 the long form of the chaos suite: scenarios from seed N on (by chance) for M minutes (20),
#                                 0: that one only; Tests/README.md
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/packages.sh

require_swift
install_packages "${build_packages[@]}" "${cluster_packages[@]}" pgbouncer nghttp2-client curl util-linux faketime

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

flags=(--explicit-target-dependency-import-check error)
echo "== style"
swift format lint --strict -r Package.swift Sources Tests sql
echo "== build"
swift build --build-tests --quiet "${flags[@]}"
if [ $chaos = yes ]; then
    echo "== chaos, the long form"
    exec swift test --skip-build "${flags[@]}" --filter 'RandomScenarios/long|WhatItShows/databaseAwayForLong'
fi
if [ $# -gt 0 ]; then
    echo "== tests"
    exec swift test --skip-build "${flags[@]}" "$@"
fi
echo "== tests"
# The scenarios of the chaos suite need the machine to themselves and run by hand; its judge is tested here.
swift test --skip-build "${flags[@]}" --skip 'RandomScenarios|NamedPoints|WhatItShows'
echo "== the end-to-end tests once more, through pgbouncer in transaction mode"
PGPUSH_TEST_POOLER=pgbouncer swift test --skip-build "${flags[@]}" --filter EndToEndTests
