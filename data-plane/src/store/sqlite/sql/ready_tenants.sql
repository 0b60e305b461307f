-- Tenants with due rows, one probe per tenant: the next tenant's number is looked up, its rows are not read through.
-- Tenants that may not be written here are left out: their turns would be refused.
WITH RECURSIVE walk (tenant_no) AS (
  SELECT min(r.tenant_no) FROM ready r WHERE r.shard = ?1
  UNION ALL
  SELECT (SELECT min(r.tenant_no) FROM ready r WHERE r.shard = ?1 AND r.tenant_no > walk.tenant_no)
  FROM walk WHERE walk.tenant_no IS NOT NULL
)
SELECT f.tenant_id
FROM walk
CROSS JOIN tenant_fences f ON f.tenant_no = walk.tenant_no AND f.mode IN ('active', 'guest')
WHERE EXISTS (SELECT 1 FROM shard_leases l WHERE l.shard = ?1 AND l.lease_epoch = ?2)
  AND EXISTS (
    -- one range per priority, so that rows that are not due never stand in front of due ones
    SELECT 1 FROM ready r
    WHERE r.shard = ?1 AND r.tenant_no = walk.tenant_no AND r.priority IN (3, 2, 1, 0) AND r.due_at <= ?3
  )
ORDER BY f.tenant_id
