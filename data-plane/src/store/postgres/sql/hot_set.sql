-- A closed instance stays cold, and so does one that has had no turn. The end is compared in a way that no index knows.
UPDATE instances i
SET hot = $4
FROM unnest($1::bigint[], $2::uuid[]) AS v (bucket, id)
WHERE i.id = v.id AND i.bucket = v.bucket
  AND i.shard = $3
  AND num_nulls(i.closed_at) = 1
  AND i.hot <> $4
  AND (NOT $4 OR (SELECT j.turn_no FROM journal j WHERE j.instance_id = v.id AND j.bucket = v.bucket LIMIT 1) IS NOT NULL)
