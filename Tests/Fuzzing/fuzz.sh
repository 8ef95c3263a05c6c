#!/usr/bin/env bash
# Fuzzes each surface with libFuzzer and the address sanitizer, then the token normaliser in SQL. Run it by `./deploy/test.sh fuzz`.
#
#   fuzz.sh SECONDS [SURFACE…]   SURFACE: answer, json, path, token; all of them by default
#
# What it finds lies in .build/fuzz/SURFACE-… : shrink it by `.build/fuzz/fuzz -minimize_crash=1 FILE`, mend the code, and keep the
# input under Corpus/SURFACE, where the ordinary tests pick it up.
set -euo pipefail
export SWIFT_BACKTRACE=enable=no  # libFuzzer and the sanitizer print their own
cd "$(dirname "$0")/../.."
seconds=$1
shift
surfaces=("$@")
[ ${#surfaces[@]} -gt 0 ] || surfaces=(answer json path token)
out=.build/fuzz
mkdir -p "$out"

# build MODULE FILE…: a module of the product, or those of its files that stand at a border, instrumented.
objects=()
build() {
    local name=$1
    shift
    swiftc -sanitize=fuzzer,address -parse-as-library -O -swift-version 6 -package-name pgpush -module-name "$name" \
        -enable-upcoming-feature InternalImportsByDefault -I "$out" -wmo -emit-module \
        -emit-module-path "$out/$name.swiftmodule" -emit-object -o "$out/$name.o" "$@"
    objects+=("$out/$name.o")
}

build Telemetry Sources/Telemetry/*.swift
build PushModel Sources/PushModel/*.swift
build APNs Sources/APNs/{AnswerBody,Farewell,RetryAfter,APNsPath,APNsID,SettingText}.swift
build APNsSimulator Sources/APNsSimulator/{JSONText,JSONLine,Bytes}.swift
build FuzzSurfaces Tests/Fuzzing/Surfaces/*.swift
build Entry Tests/Fuzzing/LibFuzzer/Entry.swift
swiftc -sanitize=fuzzer,address "${objects[@]}" -o "$out/fuzz"

for surface in "${surfaces[@]}"; do
    echo "== $surface, $seconds s"
    if [ "$surface" = token ]; then
        PGPUSH_FUZZ_SECONDS=$seconds swift test --filter FuzzingTests.TokenTests
        continue
    fi
    # The pieces, one a line, as a dictionary in libFuzzer's spelling.
    sed 's/[\\"]/\\&/g; s/.*/"&"/' "Tests/Fuzzing/Corpus/$surface.pieces" >"$out/$surface.dict"
    mkdir -p "$out/$surface"
    PGPUSH_FUZZ_SURFACE=$surface ASAN_OPTIONS=detect_leaks=0 "$out/fuzz" -max_total_time="$seconds" -max_len=6000 -timeout=10 \
        -rss_limit_mb=2048 -dict="$out/$surface.dict" -artifact_prefix="$out/$surface-" -print_final_stats=1 -verbosity=0 \
        "$out/$surface" "Tests/Fuzzing/Corpus/$surface" 2>&1 | sed '/^###### Recommended/,/^###### End/d'
done
