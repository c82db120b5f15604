# Creates the cluster and its database, unless they exist, and starts the server.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  printf %s "$POSTGRES_PASSWORD" > /tmp/password
  initdb -U "$POSTGRES_USER" --pwfile=/tmp/password -A scram-sha-256 -E UTF8 --locale=C > /dev/null
  rm /tmp/password
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -E postgres > /dev/null
fi
exec postgres -c listen_addresses='*' -k /tmp
