-- Turns of which every fact has been read.
INSERT INTO journal (bucket, instance_id, turn_no, at, body)
SELECT v.bucket, v.id, v.turn_no, v.at, v.body
FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[]) AS v (bucket, id, turn_no, at, body)
