WITH v (id, status, closed_at) AS (VALUES (?, ?, ?))
UPDATE instances
SET status = coalesce(v.status, instances.status), hot = 0, closed_at = v.closed_at
FROM v
WHERE instances.id = +v.id AND v.id IS NOT NULL
