-- A closed instance stays cold, and so does one that has had no turn. The plus keeps the planner from turning the join
-- round and reading all instances.
WITH v (id, shard, hot) AS (VALUES (?, ?, ?))
UPDATE instances
SET hot = v.hot
FROM v
WHERE instances.id = +v.id
  AND v.id IS NOT NULL
  AND instances.shard = v.shard
  AND instances.closed_at IS NULL
  AND instances.hot <> v.hot
  AND (v.hot = 0 OR EXISTS (SELECT 1 FROM journal j WHERE j.instance_id = v.id))
