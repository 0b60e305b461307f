LEFT JOIN snapshots s ON s.instance_id = v.id AND s.bucket = v.bucket
-- only the turns after the newest snapshot, so that the age of an instance does not matter
CROSS JOIN LATERAL (
  SELECT
    array_agg(j.turn_no ORDER BY j.turn_no) AS turn_nos,
    array_agg(j.at ORDER BY j.turn_no) AS ats,
    array_agg(j.body ORDER BY j.turn_no) AS bodies
  FROM journal j
  WHERE j.instance_id = v.id AND j.bucket = v.bucket AND j.turn_no > coalesce(s.turn_no, -1)
) t
