-- Mail of instances that want to close.
SELECT m.seq, m.instance_id FROM inbox m WHERE m.instance_id = ANY($1::uuid[])
