WITH v (id, tenant_no, shard, status, priority, sequence_id, namespace, created_at, fire_at)
  AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?))
INSERT INTO instances (id, tenant_no, shard, status, hot, priority, sequence_id, namespace, created_at, fire_at)
SELECT id, tenant_no, shard, status, 0, priority, sequence_id, namespace, created_at, fire_at
FROM v WHERE id IS NOT NULL
