# Installs the Debian packages that are missing; sourced by the other scripts.
#
# A PostgreSQL server that is already there is left alone, and one that is newly installed does not get a cluster:
# demo and tests start private ones in temporary folders.

# install_packages NAME…: installs what is missing of the named packages.
install_packages() {
    local missing=() name
    for name in "$@"; do
        dpkg-query -W -f '${db:Status-Abbrev}' "$name" 2>/dev/null | grep -q '^ii' || missing+=("$name")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    echo "installing: ${missing[*]}" >&2
    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { echo "error: run as root, or install sudo" >&2; return 1; }
        sudo=(sudo)
    fi
    "${sudo[@]}" bash -s -- "${missing[@]}" <<'ROOT'
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
# No service of a new package starts, and no default cluster is made, while this runs; both files go away again.
policy=/usr/sbin/policy-rc.d
clusters=/etc/postgresql-common/createcluster.d/pgpush-setup.conf
cleanup() {
    if [ -n "${made_policy:-}" ]; then rm -f "$policy"; fi
    rm -f "$clusters"
}
trap cleanup EXIT
if [ ! -e "$policy" ]; then
    made_policy=yes
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
mkdir -p "$(dirname "$clusters")"
echo "create_main_cluster = false" >"$clusters"
apt-get -qq -o DPkg::Lock::Timeout=300 update >&2
apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@" >&2
ROOT
}

# require_swift: says what to do where the toolchain is missing.
require_swift() {
    command -v swift >/dev/null && return 0
    echo "error: swift is not on the PATH; install the Swift 6.2 toolchain or newer (https://swift.org/install)" >&2
    return 1
}

# What building needs, and what running a private cluster needs.
build_packages=(libpq-dev libssl-dev libnghttp2-dev libmicrohttpd-dev pkg-config)
cluster_packages=(postgresql postgresql-client ca-certificates openssl)
