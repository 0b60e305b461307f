WITH v (shard, due_at, instance_id, node) AS (VALUES (?, ?, ?, ?))
INSERT INTO timers (shard, due_at, instance_id, node)
SELECT shard, due_at, instance_id, node FROM v WHERE instance_id IS NOT NULL
ON CONFLICT DO NOTHING
