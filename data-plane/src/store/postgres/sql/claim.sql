-- Due rows of some tenants, in the order of tenants, of each the highest priority first, then the earliest. One range
-- per tenant and priority, each with its own limit, so that neither rows that are not due nor a tenant with many rows
-- ever stand in front.
SELECT r.instance_id, t.n
FROM unnest($4::text[]) WITH ORDINALITY AS t (tenant_id, n)
CROSS JOIN LATERAL (
  SELECT f.tenant_no FROM tenant_fences f
  WHERE f.tenant_id = t.tenant_id AND f.mode IN ('active', 'guest')
    AND (SELECT l.shard FROM shard_leases l WHERE l.shard = $1 AND l.lease_epoch = $2) IS NOT NULL
) f
CROSS JOIN LATERAL (
  SELECT due.instance_id, p.priority, due.due_at
  FROM (VALUES (3), (2), (1), (0)) AS p (priority)
  CROSS JOIN LATERAL (
    SELECT r.instance_id, r.due_at
    FROM ready r
    WHERE r.shard = $1 AND r.tenant_no = f.tenant_no AND r.priority = p.priority AND r.due_at <= $3
      AND r.instance_id NOT IN (SELECT unnest($5::uuid[]))
    ORDER BY r.due_at, r.instance_id
    LIMIT $6
  ) due
  ORDER BY p.priority DESC, due.due_at, due.instance_id
  LIMIT $6
) r
ORDER BY t.n, r.priority DESC, r.due_at, r.instance_id
LIMIT $7
