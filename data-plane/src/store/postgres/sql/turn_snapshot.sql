-- One per instance: the journal keeps what is older.
INSERT INTO snapshots (bucket, instance_id, turn_no, body)
SELECT v.bucket, v.id, v.turn_no, v.body
FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[]) AS v (bucket, id, turn_no, body)
ON CONFLICT (instance_id, bucket) DO UPDATE SET turn_no = excluded.turn_no, body = excluded.body
