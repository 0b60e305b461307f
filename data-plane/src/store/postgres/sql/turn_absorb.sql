-- A row of another instance is not this turn's to delete.
DELETE FROM inbox m
USING unnest($1::bigint[], $2::bigint[], $3::uuid[]) AS v (shard, seq, instance_id)
WHERE m.shard = v.shard AND m.seq = v.seq AND m.instance_id = v.instance_id
