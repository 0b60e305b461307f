WITH v (shard, tenant_no, priority, due_at, instance_id) AS (VALUES (?, ?, ?, ?, ?))
INSERT INTO ready (shard, tenant_no, priority, due_at, instance_id)
SELECT shard, tenant_no, priority, due_at, instance_id FROM v WHERE shard IS NOT NULL
