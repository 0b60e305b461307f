-- The key of a ready row never changes after birth, so the instance tells it.
DELETE FROM ready r
USING unnest($1::bigint[], $2::uuid[]) AS v (bucket, id)
JOIN instances i ON i.id = v.id AND i.bucket = v.bucket
WHERE r.shard = i.shard AND r.tenant_no = i.tenant_no AND r.priority = i.priority AND r.due_at = i.fire_at
  AND r.instance_id = i.id
