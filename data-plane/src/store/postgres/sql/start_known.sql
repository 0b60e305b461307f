SELECT v.n, o.body_sha256, o.instance_id
FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS v (n, tenant_no, key)
JOIN once o ON o.tenant_no = v.tenant_no AND o.kind = 1 AND o.key = v.key
