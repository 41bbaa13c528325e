#!/bin/sh
# What the Dockerfile does, step by step; each step also runs outside of a container: sh tools/container.sh install|check
set -eu
case "${1:-}" in
install)  # naq and its extras into this Python; torch alone and first, as the Makefile does
    python3 -m pip install --no-cache-dir --disable-pip-version-check -c constraints.txt torch
    python3 -m pip install --no-cache-dir --disable-pip-version-check -c constraints.txt ".[${NAQ_EXTRAS:-io}]"
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
