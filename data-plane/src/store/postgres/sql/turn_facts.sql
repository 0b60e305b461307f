-- What stands against a turn that was not appended. An instance that does not exist has no row here.
SELECT
  v.n,
  i.shard = v.shard,
  i.tenant_no = v.tenant_no,
  i.closed_at IS NOT NULL,
  i.hot,
  -- the next turn's number
  coalesce((
    SELECT j.turn_no + 1 FROM journal j
    WHERE j.instance_id = v.id AND j.bucket = v.bucket
    ORDER BY j.turn_no DESC LIMIT 1
  ), 0)
FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[]) AS v (bucket, id, n, shard, tenant_no)
JOIN instances i ON i.id = v.id AND i.bucket = v.bucket
