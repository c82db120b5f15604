-- name: read_standby_settings
-- Returns what decides whether a commit waits for a standby, and for how long: how many standbys follow this server, the
-- names of those that are synchronous, and wal_sender_timeout in milliseconds (0: there is none). Every role may see this
-- much. A backup or an archiver that streams counts as a standby.
SELECT
  (SELECT count(*) FROM pg_stat_replication) AS standbys,
  current_setting('synchronous_standby_names') AS synchronous_names,
  (SELECT setting::integer FROM pg_settings WHERE name = 'wal_sender_timeout') AS sender_timeout;
