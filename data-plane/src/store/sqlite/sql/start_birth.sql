WITH v (instance_id, continuity_id, timezone, data, config, metadata) AS (VALUES (?, ?, ?, ?, ?, ?))
INSERT INTO births (instance_id, continuity_id, timezone, data, config, metadata)
SELECT instance_id, continuity_id, timezone, data, config, metadata FROM v WHERE instance_id IS NOT NULL
