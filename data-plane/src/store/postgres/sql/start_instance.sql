INSERT INTO instances (bucket, id, tenant_no, shard, status, hot, priority, sequence_id, namespace, created_at, fire_at)
SELECT v.bucket, v.id, v.tenant_no, v.shard, $10::bigint, false, v.priority, v.sequence_id, v.namespace, v.created_at, v.fire_at
FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::uuid[], $7::text[], $8::bigint[], $9::bigint[])
  AS v (bucket, id, tenant_no, shard, priority, sequence_id, namespace, created_at, fire_at)
