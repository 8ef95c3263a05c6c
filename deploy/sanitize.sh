#!/usr/bin/env bash
# Builds everything with a sanitizer and runs the tests, the worker and the simulator of the end-to-end tests too. Run it by
# `./deploy/test.sh thread` or `./deploy/test.sh address`; further arguments go to `swift test`.
#
# Every report fails the run, also one of a process that a test has killed.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1
shift
export PGPUSH_SANITIZER=$kind
flags=(--scratch-path ".build/$kind" --sanitize "$kind" --explicit-target-dependency-import-check error)

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
# The tests may run PostgreSQL as another user; only what we built writes here.
common="log_path=$reports/report:exitcode=66"
export TSAN_OPTIONS="$common:suppressions=$PWD/Tests/Sanitizers/thread.supp:history_size=4"
# Swift's runtime and OpenSSL keep what they have for the life of the process: leaks are the business of the endurance tests.
export ASAN_OPTIONS="$common:detect_leaks=0"

echo "== build"
swift build --build-tests --quiet "${flags[@]}"
echo "== tests"
status=0
swift test --skip-build "${flags[@]}" "$@" || status=$?
found=("$reports"/report*)
if [ -e "${found[0]}" ]; then
    cat "${found[@]}"
    echo "== ${#found[@]} processes with reports" >&2
    exit 1
fi
exit "$status"
