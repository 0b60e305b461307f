-- What a message meets. Foreign and missing are one: no row.
WITH v (n, id, tenant_no, once_key) AS (VALUES (?, ?, ?, ?))
SELECT
  v.n,
  EXISTS (SELECT 1 FROM once o WHERE o.tenant_no = v.tenant_no AND o.kind = 2 AND o.key = v.once_key),
  i.closed_at IS NOT NULL
FROM v
CROSS JOIN instances i ON i.id = v.id AND i.tenant_no = v.tenant_no
WHERE v.id IS NOT NULL
