#!/usr/bin/env bash
# Installs what is missing, checks the style, builds, and runs every test; twice where a pooler could make a difference.
#
#   ./deploy/test.sh              everything
#   ./deploy/test.sh --filter X   only the suites whose name matches X
#
# By hand, since they take long (Tests/README.md):
#
#   ./deploy/test.sh fuzz [SECONDS [SURFACE…]]   libFuzzer on what comes from outside, and texts through the token normaliser
#   ./deploy/test.sh thread|address [--filter X] everything built with the thread or the address sanitizer
#   ./deploy/test.sh day [SECONDS]               days of operation, in which all clocks go sixty times as fast
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/packages.sh

require_swift
install_packages "${build_packages[@]}" "${cluster_packages[@]}" pgbouncer nghttp2-client curl util-linux

case "${1:-}" in
fuzz) exec Tests/Fuzzing/fuzz.sh "${2:-600}" "${@:3}" ;;
thread | address) exec deploy/sanitize.sh "$@" ;;
day)
    install_packages faketime
    export PGPUSH_DAY_SECONDS=${2:-1500}
    exec swift test --filter EndToEndTests.Endurance
    ;;
esac

flags=(--explicit-target-dependency-import-check error)
echo "== style"
swift format lint --strict -r Package.swift Sources Tests sql
echo "== build"
swift build --build-tests --quiet "${flags[@]}"
echo "== tests"
swift test --skip-build "${flags[@]}" "$@"
if [ $# -eq 0 ]; then
    echo "== the end-to-end tests once more, through pgbouncer in transaction mode"
    PGPUSH_TEST_POOLER=pgbouncer swift test --skip-build "${flags[@]}" --filter EndToEndTests
fi
