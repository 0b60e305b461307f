-- What a message meets. Foreign and missing are one: no row. Pending mail is counted no further than the limit.
SELECT
  i.id,
  EXISTS (SELECT 1 FROM once o WHERE o.tenant_no = ?2 AND o.kind = 2 AND o.key = ?3),
  i.closed_at IS NOT NULL,
  (SELECT count(*) FROM (SELECT 1 FROM inbox m WHERE m.instance_id = ?1 LIMIT ?4))
FROM instances i
WHERE i.id = ?1 AND i.tenant_no = ?2
