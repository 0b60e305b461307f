-- Mail of instances that want to close.
SELECT m.seq, m.instance_id
FROM unnest($1::uuid[]) AS v (id)
JOIN inbox m ON m.instance_id = v.id
