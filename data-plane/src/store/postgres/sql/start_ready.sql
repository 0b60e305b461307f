INSERT INTO ready (shard, tenant_no, priority, due_at, instance_id, later, gen)
SELECT v.shard, v.tenant_no, v.priority, v.due_at, v.instance_id, v.later, r.position % 8
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::uuid[], $6::boolean[])
  AS v (shard, tenant_no, priority, due_at, instance_id, later)
CROSS JOIN (SELECT position FROM rings WHERE ring = 'ready') r
