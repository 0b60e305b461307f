-- Instances that stay open: only those of which the row says something else reach this statement. The plus keeps the
-- planner from turning the join round and reading all instances.
WITH v (id, status) AS (VALUES (?, ?))
UPDATE instances
SET status = coalesce(v.status, instances.status), hot = 1
FROM v
WHERE instances.id = +v.id AND v.id IS NOT NULL
