-- Into the slot of its day; a day that is over has that of today; one that has no slot yet goes to the far ones.
INSERT INTO timers (shard, due_at, instance_id, node, slot)
SELECT v.shard, v.due_at, v.instance_id, v.node,
  CASE WHEN v.due_at / 86400000 > r.position + 5 THEN 8 ELSE greatest(v.due_at / 86400000, r.position) % 8 END
FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::bigint[]) AS v (shard, due_at, instance_id, node)
CROSS JOIN (SELECT position FROM rings WHERE ring = 'timers') r
ON CONFLICT DO NOTHING
