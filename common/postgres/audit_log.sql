-- name: add_audit_entries
-- Adds entries to the audit log: ids ($1), tenants ($2), actors ($3), actions ($4), targets ($5) and changes ($6).
INSERT INTO audit_log (id, tenant_id, actor, action, target, changes)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::jsonb[]);
