WITH v (n, tenant_no, key) AS (VALUES (?, ?, ?))
SELECT v.n, o.body_sha256, o.instance_id
FROM v
CROSS JOIN once o ON o.tenant_no = v.tenant_no AND o.kind = 1 AND o.key = v.key
WHERE v.n IS NOT NULL
