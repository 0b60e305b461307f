-- Only what differs from what the row says reaches this statement. The plus keeps the planner from turning the join round
-- and reading all instances.
WITH v (id, status, hot, closed_at) AS (VALUES (?, ?, ?, ?))
UPDATE instances
SET status = coalesce(v.status, instances.status), hot = v.hot, closed_at = v.closed_at
FROM v
WHERE instances.id = +v.id AND v.id IS NOT NULL
