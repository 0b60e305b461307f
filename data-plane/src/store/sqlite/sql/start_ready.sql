WITH v (shard, tenant_no, priority, due_at, instance_id, later) AS (VALUES (?, ?, ?, ?, ?, ?))
INSERT INTO ready (shard, tenant_no, priority, due_at, instance_id, later)
SELECT shard, tenant_no, priority, due_at, instance_id, later FROM v WHERE shard IS NOT NULL
