-- Tenants with due rows, one probe per tenant: the next tenant's number is looked up, its rows are not read through.
-- Tenants that may not be written here are left out: their turns would be refused.
WITH RECURSIVE walk (tenant_no) AS (
  (SELECT r.tenant_no FROM ready r WHERE r.shard = $1 ORDER BY r.tenant_no LIMIT 1)
  UNION ALL
  SELECT (
    SELECT r.tenant_no FROM ready r WHERE r.shard = $1 AND r.tenant_no > walk.tenant_no ORDER BY r.tenant_no LIMIT 1
  )
  FROM walk WHERE walk.tenant_no IS NOT NULL
)
SELECT f.tenant_id
FROM walk
CROSS JOIN LATERAL (
  SELECT f.tenant_id FROM tenant_fences f WHERE f.tenant_no = walk.tenant_no AND f.mode IN ('active', 'guest') LIMIT 1
) f
WHERE (SELECT l.shard FROM shard_leases l WHERE l.shard = $1 AND l.lease_epoch = $2) IS NOT NULL
  AND (
    -- one range per priority, so that rows that are not due never stand in front of due ones
    SELECT due.priority
    FROM (VALUES (3), (2), (1), (0)) AS p (priority)
    CROSS JOIN LATERAL (
      SELECT r.priority FROM ready r
      WHERE r.shard = $1 AND r.tenant_no = walk.tenant_no AND r.priority = p.priority AND r.due_at <= $3
      LIMIT 1
    ) due
    LIMIT 1
  ) IS NOT NULL
ORDER BY f.tenant_id
