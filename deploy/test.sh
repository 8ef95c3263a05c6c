#!/usr/bin/env bash
# Installs what is missing, checks the style, builds, and runs every test; twice where a pooler could make a difference.
#
#   ./deploy/test.sh              everything
#   ./deploy/test.sh --filter X   only the suites whose name matches X
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/packages.sh

require_swift
install_packages "${build_packages[@]}" "${cluster_packages[@]}" pgbouncer nghttp2-client curl util-linux

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
