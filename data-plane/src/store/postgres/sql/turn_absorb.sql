-- A row of another instance is not this turn's to delete. Looked up one by one, and then deleted by place: an inbox is
-- mostly seen empty, and a plan that joins it would read it all for each row once it is full.
DELETE FROM inbox
WHERE ctid = ANY(ARRAY(
  SELECT (SELECT m.ctid FROM inbox m WHERE m.shard = v.shard AND m.seq = v.seq AND m.instance_id = v.instance_id)
  FROM unnest($1::bigint[], $2::bigint[], $3::uuid[]) AS v (shard, seq, instance_id)
))
