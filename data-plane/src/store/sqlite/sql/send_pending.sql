-- Once per instance, however many messages come for it: an inbox may hold ten thousand.
WITH v (id) AS (VALUES (?))
SELECT v.id, (SELECT count(*) FROM inbox m WHERE m.instance_id = v.id)
FROM v
WHERE v.id IS NOT NULL
