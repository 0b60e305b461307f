INSERT INTO listed (bucket, instance_id, tenant_no, created_at)
SELECT v.bucket, v.instance_id, v.tenant_no, v.created_at
FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::bigint[]) AS v (bucket, instance_id, tenant_no, created_at)
