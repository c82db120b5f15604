#!/bin/sh
# Installs the bundle of the folder $1 in the folder $2, and uses all of it. There must be no network.
set -eu
bundle=$1 place=$2
if [ "$(wc -l < /proc/net/route)" -ne 1 ]; then
  echo "error: this machine has a route, and the test is about one that has none" >&2
  exit 1
fi
"$bundle/install" "$place"
"$place/demo"
"$place/up" > "$place/up.log" 2>&1 &
up=$!
tries=0
until grep -q 'Charonia is ready' "$place/up.log"; do
  tries=$((tries + 1))
  if [ "$tries" -gt 600 ] || ! kill -0 "$up"; then
    cat "$place/up.log" >&2
    exit 1
  fi
  sleep 0.2
done
CHARONIA_URL=http://127.0.0.1:8080 CHARONIA_KEY=$("$place/key" acme submit read)
export CHARONIA_URL CHARONIA_KEY
"$place/charonia" run ocr image=@"$place/app/deploy/local/demo.png"
"$place/reload" echo
if "$bundle/install" "$place" 2> "$place/again.log"; then
  echo "error: it was installed again, while the stack was running" >&2
  exit 1
fi
cat "$place/again.log"
kill -INT "$up"
wait "$up"
