-- The feed is in the order of (xid, id): of the transactions that recorded the events. It ends before the oldest
-- transaction that is open. All before that one have ended, so no event can appear among those of the feed later. The ids
-- alone would not do: an older transaction may commit after a newer one.

-- name: list_feed
-- Returns the events after positions in the feeds of tenants ($1, $2, $3), in order: at most $5 for each position. Bodies
-- are only of events whose type one of the patterns ($4: separated by commas, for each position) matches, until they reach
-- $6 bytes. A body over $6 bytes is left out; its size is known.
SELECT number, xid, id, type, model, CASE WHEN size BETWEEN 1 AND $6::bigint THEN body END AS body, size
FROM (
  SELECT p.number, e.*, sum(e.size) OVER (
    PARTITION BY p.number ORDER BY e.xid, e.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) AS size_before
  FROM unnest($1::uuid[], $2::xid8[], $3::uuid[], $4::text[])
    WITH ORDINALITY AS p(tenant_id, xid, id, types, number)
  CROSS JOIN LATERAL (
    SELECT e.xid, e.id, e.type, e.model, e.body,
           CASE WHEN event_patterns(e.type) && string_to_array(p.types, ',') THEN octet_length(e.body) ELSE 0 END AS size
    FROM events e
    WHERE e.tenant_id = p.tenant_id AND (e.xid, e.id) > (p.xid, p.id)
      AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY e.xid, e.id
    LIMIT $5
  ) e
) page
WHERE coalesce(size_before, 0) < $6::bigint
ORDER BY number, xid, id;

-- name: find_news
-- Returns those of the tenants ($1) whose feed goes on after a position ($2, $3).
SELECT p.tenant_id
FROM unnest($1::uuid[], $2::xid8[], $3::uuid[]) AS p(tenant_id, xid, id)
CROSS JOIN LATERAL (
  SELECT e.xid
  FROM events e
  WHERE e.tenant_id = p.tenant_id AND (e.xid, e.id) > (p.xid, p.id)
  ORDER BY e.xid, e.id
  LIMIT 1
) next
WHERE next.xid < pg_snapshot_xmin(pg_current_snapshot());

-- name: read_event_body
-- Returns the body of a tenant's ($2) event ($1).
SELECT body FROM events WHERE id = $1 AND tenant_id = $2;

-- name: find_feed_position
-- Returns the transaction of a tenant's ($2) event ($1), and whether another one ($3) may be that of an event that is gone.
SELECT
  (SELECT xid FROM events WHERE id = $1 AND tenant_id = $2) AS xid,
  $3::xid8 < pg_snapshot_xmax(pg_current_snapshot()) AS is_past;

-- name: find_feed_end
-- Returns the position of the last event in a tenant's ($1) feed.
SELECT xid, id
FROM events
WHERE tenant_id = $1 AND xid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY xid DESC, id DESC
LIMIT 1;

-- name: adopt_restored_events
-- Puts up to $1 events of the future at the beginning of their feed: they come from a dump of a server with larger ids of
-- transactions. Later transactions here would sort before them. Returns the events.
UPDATE events
SET xid = '0'
WHERE id IN (
  SELECT e.id
  FROM tenants t
  CROSS JOIN LATERAL (
    SELECT f.id
    FROM events f
    WHERE f.tenant_id = t.id AND f.xid >= pg_snapshot_xmax(pg_current_snapshot())
    ORDER BY f.xid DESC
    LIMIT $1
  ) e
  LIMIT $1
)
RETURNING id;
