-- What stands against a turn. A turn without a row here is the plain case: the instance is this shard's, its tenant may
-- write, it is open and hot, and the turn is its next one.
WITH v (n, id, turn_no, shard, tenant_id, placement_epoch) AS (VALUES (?, ?, ?, ?, ?, ?))
SELECT
  v.n,
  i.shard IS v.shard,
  f.tenant_no IS NOT NULL,
  i.closed_at IS NOT NULL,
  coalesce(i.hot, 0),
  -- the next turn's number
  coalesce((SELECT max(j.turn_no) + 1 FROM journal j WHERE j.instance_id = v.id), 0),
  i.id IS NOT NULL
FROM v
LEFT JOIN instances i ON i.id = v.id
LEFT JOIN tenant_fences f
  ON f.tenant_no = i.tenant_no
  AND f.tenant_id = v.tenant_id
  AND f.placement_epoch = v.placement_epoch
  AND f.mode IN ('active', 'guest')
WHERE v.id IS NOT NULL
  AND (
    i.shard IS NOT v.shard
    OR f.tenant_no IS NULL
    OR i.closed_at IS NOT NULL
    OR i.hot = 0
    OR v.turn_no <> coalesce((SELECT max(j.turn_no) + 1 FROM journal j WHERE j.instance_id = v.id), 0)
  )
