-- Waits for whoever is about to use the same key. In one order for everybody, so that nobody waits in a circle.
INSERT INTO once (tenant_no, kind, key, body_sha256, instance_id)
SELECT v.tenant_no, 1, v.key, v.body_sha256, v.instance_id
FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::uuid[]) AS v (tenant_no, key, body_sha256, instance_id)
ORDER BY v.tenant_no, v.key
ON CONFLICT DO NOTHING
