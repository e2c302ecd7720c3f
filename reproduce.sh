#!/usr/bin/env bash
# Everything from nothing: an environment with pinned versions, all tests, every notebook run anew,
# the book compiled from them, and the archive's manifest. Three quarters of an hour on two cores.
#
#   ./reproduce.sh                               the papers' data where packages carry them
#   PROFILE=paper DATA_ROOT=/data ./reproduce.sh  the papers' own settings and data; days
#   STEPS="book" ./reproduce.sh                  some of: tests book archive
#
# Needs Python 3.11 or newer, make and an index that pip can install from; browser tests need
# Chromium, which .ci/run installs on Debian. What it makes lies in _build and .venv.
set -euo pipefail
cd "$(dirname "$0")"

steps=${STEPS:-tests book archive}
for step in $steps; do
    case $step in
        tests | book | archive) ;;
        *)
            echo "STEPS must be among: tests book archive; got $step" >&2
            exit 2
            ;;
    esac
done
command -v make >/dev/null || { echo "make is needed: apt-get install make" >&2; exit 2; }

started=$SECONDS
for step in $steps; do
    echo "== $step"
    case $step in
        tests) make test JOBS="${JOBS:-2}" ;;
        book)
            make book PROFILE="${PROFILE:-quick}" DATA_ROOT="${DATA_ROOT:-}" JOBS="${JOBS:-2}"
            ;;
        archive)
            if git diff --quiet HEAD 2>/dev/null; then
                make archive
            else
                echo "skipped: it needs a checkout of git without uncommitted changes"
            fi
            ;;
    esac
done
echo "Done in $(((SECONDS - started) / 60)) minutes. Open _build/html/index.html"
