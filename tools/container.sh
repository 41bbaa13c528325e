#!/bin/sh
# What the Dockerfile does, step by step; each step also runs outside of a container: sh tools/container.sh install|check
set -eu
case "${1:-}" in
install)  # naq and its extras into this Python, at the versions of constraints.txt; torch alone and first
    versions=$(mktemp)
    sed -n 's/^\([^ #]*==[^ ]*\).*/\1/p' constraints.txt > "$versions"  # pip wants a hash of everything once it sees one
    python3 -m pip install --no-cache-dir --disable-pip-version-check -c "$versions" torch
    python3 -m pip install --no-cache-dir --disable-pip-version-check -c "$versions" ".[${NAQ_EXTRAS:-io}]"
    rm "$versions"
    ;;
check)  # fails the build if naq cannot work
    cd /
    naq --version
    naq doctor
    ;;
*)
    echo "usage: sh tools/container.sh install|check" >&2
    exit 2
    ;;
esac
