WITH v (instance_id, error) AS (VALUES (?, ?))
INSERT INTO errors (instance_id, error)
SELECT instance_id, error FROM v WHERE instance_id IS NOT NULL
