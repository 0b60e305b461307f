-- Due rows of one tenant, the highest priority first, then the earliest. One range per priority, so that rows that are
-- not due never stand in front of due ones; SQLite runs the arms in the order written.
WITH mine (tenant_no) AS MATERIALIZED (
  SELECT f.tenant_no FROM tenant_fences f
  WHERE f.tenant_id = ?3 AND f.mode IN ('active', 'guest')
    AND EXISTS (SELECT 1 FROM shard_leases l WHERE l.shard = ?1 AND l.lease_epoch = ?2)
)
SELECT * FROM (
  SELECT r.instance_id FROM ready r
  WHERE r.shard = ?1 AND r.tenant_no = (SELECT tenant_no FROM mine) AND r.priority = 3 AND r.due_at <= ?4
  ORDER BY r.due_at, r.instance_id LIMIT ?5
)
UNION ALL
SELECT * FROM (
  SELECT r.instance_id FROM ready r
  WHERE r.shard = ?1 AND r.tenant_no = (SELECT tenant_no FROM mine) AND r.priority = 2 AND r.due_at <= ?4
  ORDER BY r.due_at, r.instance_id LIMIT ?5
)
UNION ALL
SELECT * FROM (
  SELECT r.instance_id FROM ready r
  WHERE r.shard = ?1 AND r.tenant_no = (SELECT tenant_no FROM mine) AND r.priority = 1 AND r.due_at <= ?4
  ORDER BY r.due_at, r.instance_id LIMIT ?5
)
UNION ALL
SELECT * FROM (
  SELECT r.instance_id FROM ready r
  WHERE r.shard = ?1 AND r.tenant_no = (SELECT tenant_no FROM mine) AND r.priority = 0 AND r.due_at <= ?4
  ORDER BY r.due_at, r.instance_id LIMIT ?5
)
