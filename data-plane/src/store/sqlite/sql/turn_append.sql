-- Appends every turn that nothing stands against: the instance is this shard's, its tenant may write here, it is open
-- and in memory (or this is its first turn), and the turn does not close over mail. It does not look into the journal:
-- a statement that reads what it writes first puts everything aside, which cost a third of a commit.
WITH v (id, turn_no, at, body, shard, tenant_id, placement_epoch, closing) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?))
INSERT INTO journal (instance_id, turn_no, at, body)
SELECT v.id, v.turn_no, v.at, v.body
FROM v
CROSS JOIN instances i ON i.id = v.id
CROSS JOIN tenant_fences f ON f.tenant_no = i.tenant_no
WHERE i.shard = v.shard
  AND f.tenant_id = v.tenant_id
  AND f.placement_epoch = v.placement_epoch
  AND f.mode IN ('active', 'guest')
  AND i.closed_at IS NULL
  AND (i.hot = 1 OR v.turn_no = 0)
  AND NOT (v.closing AND EXISTS (SELECT 1 FROM inbox m WHERE m.instance_id = v.id))
ON CONFLICT DO NOTHING
