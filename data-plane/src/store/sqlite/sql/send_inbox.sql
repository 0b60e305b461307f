WITH v (shard, instance_id, signal_id, kind, name, payload, at) AS (VALUES (?, ?, ?, ?, ?, ?, ?))
INSERT INTO inbox (shard, instance_id, signal_id, kind, name, payload, at)
SELECT shard, instance_id, signal_id, kind, name, payload, at FROM v WHERE shard IS NOT NULL
