WITH v (tenant_no, key, instance_id) AS (VALUES (?, ?, ?))
INSERT INTO once (tenant_no, kind, key, instance_id)
SELECT tenant_no, 2, key, instance_id FROM v WHERE tenant_no IS NOT NULL
