-- Mail of instances that want to close.
WITH v (id) AS (VALUES (?))
SELECT m.seq, m.instance_id
FROM v
CROSS JOIN inbox m ON m.instance_id = v.id
WHERE v.id IS NOT NULL
