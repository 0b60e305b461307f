-- The key of a ready row never changes after birth, so the instance tells it.
WITH v (id) AS (VALUES (?))
DELETE FROM ready
WHERE (shard, tenant_no, priority, due_at, instance_id) IN (
  SELECT i.shard, i.tenant_no, i.priority, i.fire_at, i.id
  FROM v CROSS JOIN instances i ON i.id = v.id
  WHERE v.id IS NOT NULL
)
