-- What stands against a turn that was not appended. An instance that does not exist has no row here.
WITH v (n, id, shard, tenant_id, placement_epoch) AS (VALUES (?, ?, ?, ?, ?))
SELECT
  v.n,
  i.shard = v.shard,
  f.tenant_id = v.tenant_id AND f.placement_epoch = v.placement_epoch AND f.mode IN ('active', 'guest'),
  i.closed_at IS NOT NULL,
  i.hot,
  -- the next turn's number
  coalesce((SELECT max(j.turn_no) + 1 FROM journal j WHERE j.instance_id = v.id), 0)
FROM v
CROSS JOIN instances i ON i.id = v.id
CROSS JOIN tenant_fences f ON f.tenant_no = i.tenant_no
WHERE v.id IS NOT NULL
