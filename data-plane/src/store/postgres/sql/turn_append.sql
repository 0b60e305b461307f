-- Appends every turn that nothing stands against: the instance is this shard's, its tenant may write here, it is open
-- and in memory (or this is its first turn), the turn before it is there, and it does not close over mail. Scalar
-- subqueries, not EXISTS: the planner could turn that into a hash of the whole journal. The tenant and the end are
-- compared in a way that no index knows: on a young store the planner takes one of those of lists, and keeps it.
INSERT INTO journal (bucket, instance_id, turn_no, at, body)
SELECT v.bucket, v.id, v.turn_no, v.at, v.body
FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::boolean[])
  AS v (bucket, id, turn_no, at, body, shard, tenant_no, closing)
JOIN instances i ON i.id = v.id AND i.bucket = v.bucket
WHERE i.shard = v.shard
  AND i.tenant_no + 0 = v.tenant_no
  AND num_nulls(i.closed_at) = 1
  AND (i.hot OR v.turn_no = 0)
  AND (v.turn_no = 0 OR (
    SELECT p.turn_no FROM journal p
    WHERE p.instance_id = v.id AND p.bucket = v.bucket AND p.turn_no = v.turn_no - 1
  ) IS NOT NULL)
  AND (NOT v.closing OR (SELECT m.seq FROM inbox m WHERE m.instance_id = v.id LIMIT 1) IS NULL)
ON CONFLICT DO NOTHING
RETURNING instance_id
