#!/bin/sh
# `make demo`: index the project's own memory and ask it three things.
set -eu
cd "$(dirname "$0")/.."

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
plain() { printf '\n$ %s\n' "$*"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] && show=say || show=plain

$show memsync sync
memsync sync

$show 'memsync search -n 2 what happens when a file is written twice in one clock tick      # by meaning'
memsync search -n 2 what happens when a file is written twice in one clock tick

$show 'memsync search -n 2 NaN vec0      # by word'
memsync search -n 2 NaN vec0

$show 'memsync search -n 2 what went wrong kind:daily after:2026-11-18      # only in the daily logs since then'
memsync search -n 2 what went wrong kind:daily after:2026-11-18

cat <<'END'

That was memsync's own memory in memory-files/. Now yours:

  . .venv/bin/activate
  memsync init ~/notes          # makes a memory root, or adopts a folder of Markdown; overwrites nothing
  cd ~/notes && memsync sync
  memsync search "what did we decide about the store"
END
