WITH v (tenant_no, key, body_sha256, instance_id) AS (VALUES (?, ?, ?, ?))
INSERT INTO once (tenant_no, kind, key, body_sha256, instance_id)
SELECT tenant_no, 1, key, body_sha256, instance_id FROM v WHERE tenant_no IS NOT NULL
